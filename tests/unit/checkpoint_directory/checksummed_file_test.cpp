// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_directory/checksummed_file.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/files.h"
#include "base/mapped_file.h"
#include "base/unique_fd.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kMegabyte = std::size_t{1} << 20;

std::string numbered_text(std::size_t count) {
  std::string bytes(count, '\0');
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<char>(i * 31 + i / kPage);
  }
  return bytes;
}

FileChecksum write_in_pieces(
    const fs::path& path,
    std::string_view bytes,
    std::size_t piece,
    WriteMode mode) {
  ChecksummedFile file(path, mode);
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size()))) {
    file.write(bytes.substr(0, piece));
  }
  return file.finish();
}

std::size_t pages_in_cache(const fs::path& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const MappedFile file(fd.get(), path, MappedFile::Mode::read_only);
  std::vector<unsigned char> pages((file.size() + kPage - 1) / kPage);
  EXPECT_EQ(::mincore(file.data(), file.size(), pages.data()), 0);
  return static_cast<std::size_t>(
      std::ranges::count_if(pages, [](auto page) { return (page & 1) != 0; }));
}

bool supports_direct_io(const fs::path& folder) {
  const fs::path path = folder / "probe";
  const UniqueFd fd(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_DIRECT | O_CLOEXEC, 0600));
  alignas(kPage) static const char block[kPage] = {};
  return fd && ::write(fd.get(), block, kPage) == kPage &&
         pages_in_cache(path) == 0;
}

TEST(ChecksummedFile, WritesTheSameFileInBothModes) {
  const TemporaryDirectory folder;
  int number = 0;
  for (const std::size_t size :
       {std::size_t{0},
        std::size_t{1},
        kPage - 1,
        kPage,
        kPage + 1,
        kMegabyte - 1,
        kMegabyte,
        kMegabyte + 1,
        3 * kMegabyte + 5 * kPage + 7}) {
    const std::string bytes = numbered_text(size);
    const FileChecksum plain =
        write_checksummed(folder.path() / "plain", bytes);
    for (const std::size_t piece :
         {kMegabyte + 3, 10 * kMegabyte, std::size_t{70'001}}) {
      SCOPED_TRACE(testing::Message() << size << " bytes by " << piece);
      const fs::path path = folder.path() / std::to_string(++number);
      const FileChecksum sum =
          write_in_pieces(path, bytes, piece, WriteMode::direct);
      EXPECT_EQ(sum.bytes, size);
      EXPECT_EQ(sum.xxh3, plain.xxh3);
      EXPECT_TRUE(read_file(path, 16 * kMegabyte) == bytes);
    }
    fs::remove(folder.path() / "plain");
  }
}

TEST(ChecksummedFile, DoesNotFillThePageCache) {
  const TemporaryDirectory folder;
  if (!supports_direct_io(folder.path())) {
    GTEST_SKIP() << "this file system does not support direct I/O";
  }
  const fs::path path = folder.path() / "file";

  write_in_pieces(
      path, numbered_text(4 * kMegabyte + 1), kMegabyte, WriteMode::direct);

  // The end of the file is not a whole block.
  EXPECT_LE(pages_in_cache(path), 1);
}

}  // namespace
}  // namespace accelerate
