// SPDX-License-Identifier: Apache-2.0
#include "xla/graph/program_store.h"

#include <cstring>

#include <xxhash.h>

#include "accelerate/error.h"
#include "base/atomic_file.h"
#include "base/files.h"
#include "base/hmac.h"
#include "base/new_file.h"

namespace accelerate::xla {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{4} << 30;

// A file: magic, checksum of the rest (XXH3, 128 bits), key, program.
struct Header {
  char magic[8] = {'A', 'C', 'C', 'X', 'L', 'A', '0', '1'};
  std::uint64_t checksum[2] = {};
  std::uint64_t key_bytes = 0;
};

Header header_for(std::string_view body, std::size_t key_bytes) {
  const XXH128_hash_t hash = XXH3_128bits(body.data(), body.size());
  Header header;
  header.checksum[0] = hash.low64;
  header.checksum[1] = hash.high64;
  header.key_bytes = key_bytes;
  return header;
}

// The program in a file's content, or nothing if the content is damaged or
// belongs to another key.
std::optional<std::string> parse(
    const std::string& content, const std::string& key) {
  if (content.size() < sizeof(Header) + key.size()) {
    return std::nullopt;
  }
  const auto body = std::string_view(content).substr(sizeof(Header));
  const Header expected = header_for(body, key.size());
  if (std::memcmp(content.data(), &expected, sizeof(Header)) != 0 ||
      body.substr(0, key.size()) != key) {
    return std::nullopt;
  }
  return std::string(body.substr(key.size()));
}

}  // namespace

ProgramStore::ProgramStore(std::filesystem::path folder)
    : folder_(std::move(folder)) {
  make_private_folder(folder_, "ACCELERATE_XLA_CACHE");
}

std::filesystem::path ProgramStore::file_of(const std::string& key) const {
  return folder_ / (sha256_hex(key) + ".xla");
}

std::optional<std::string> ProgramStore::load(const std::string& key) const {
  const auto file = file_of(key);
  std::string content;
  try {
    content = read_file(file, kMaxBytes);
  } catch (const IoError&) {
    return std::nullopt;
  }
  auto program = parse(content, key);
  if (!program) {
    drop(key);
  }
  return program;
}

void ProgramStore::save(
    const std::string& key, const std::string& program) const {
  const std::string body = key + program;
  const Header header = header_for(body, key.size());
  AtomicFile file(file_of(key), 0600);
  file.write({reinterpret_cast<const char*>(&header), sizeof(header)});
  file.write(body);
  file.commit();
}

void ProgramStore::drop(const std::string& key) const {
  std::error_code ignored;
  std::filesystem::remove(file_of(key), ignored);
}

}  // namespace accelerate::xla
