// SPDX-License-Identifier: Apache-2.0
#include "comm/shared_memory.h"

#include <algorithm>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::MatchesRegex;

TEST(SharedMemory, IsZeroAndAlignedToAPage) {
  const auto memory = SharedMemory::create(10'000);

  EXPECT_GE(memory->bytes(), 10'000U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory->data()) % 4096, 0U);
  EXPECT_TRUE(
      std::all_of(memory->data(), memory->data() + 10'000, [](std::byte b) {
        return b == std::byte{0};
      }));
}

TEST(SharedMemory, IsTheSameMemoryAfterOpeningItsAddress) {
  const auto created = SharedMemory::create(100);
  const auto opened = SharedMemory::open(created->address());

  std::strcpy(reinterpret_cast<char*>(created->data()) + 7, "hello");

  EXPECT_NE(created->data(), opened->data());
  EXPECT_EQ(opened->bytes(), created->bytes());
  EXPECT_STREQ(reinterpret_cast<char*>(opened->data()) + 7, "hello");
}

TEST(SharedMemory, IsAccessibleOnlyToTheSameUser) {
  const auto memory = SharedMemory::create(100);
  const std::string& address = memory->address();
  const auto colon = address.find(':');
  const auto fd = std::stoi(address.substr(colon + 1));
  struct stat status{};

  ASSERT_EQ(::fstat(fd, &status), 0);

  EXPECT_EQ(status.st_mode & 0777, 0600U);
  EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_THAT(address, MatchesRegex("[0-9]+:[0-9]+:[0-9a-f]+"));
}

TEST(SharedMemory, HasADifferentNonceEachTime) {
  const auto nonce = [](const SharedMemory& memory) {
    return memory.address().substr(memory.address().rfind(':'));
  };

  EXPECT_NE(nonce(*SharedMemory::create(1)), nonce(*SharedMemory::create(1)));
}

TEST(SharedMemory, CannotBeOpenedAfterItsCreatorDestroyedIt) {
  const std::string address = SharedMemory::create(100)->address();

  EXPECT_THAT(
      message_of<IoError>([&] { SharedMemory::open(address); }),
      ContainsRegex(
          "shared memory `" + address + "` cannot be opened: /proc/"));
}

TEST(SharedMemory, CannotBeOpenedWithAnotherNonce) {
  const auto memory = SharedMemory::create(100);
  std::string address = memory->address();
  address.back() = address.back() == '0' ? '1' : '0';

  EXPECT_THAT(
      message_of<IoError>([&] { SharedMemory::open(address); }),
      HasSubstr(" belongs to another machine or to an earlier run"));
}

TEST(SharedMemory, CannotBeOpenedWhenTheDescriptorIsAnotherFile) {
  const int fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const std::string address = std::to_string(::getpid()) + ":" +
                              std::to_string(fd) + ":" + std::string(32, '0');

  EXPECT_THAT(
      message_of<IoError>([&] { SharedMemory::open(address); }),
      HasSubstr(" was not created by accelerate"));
  ::close(fd);
}

class BadAddress : public testing::TestWithParam<std::string> {};

TEST_P(BadAddress, IsReportedInTheError) {
  EXPECT_THAT(
      message_of<IoError>([&] { SharedMemory::open(GetParam()); }),
      HasSubstr("shared memory `" + GetParam() + "` cannot be opened: "));
}

INSTANTIATE_TEST_SUITE_P(
    SharedMemory,
    BadAddress,
    testing::Values("", "hello", "1", "-1:-1:", "4194305:3:00", "1:9999:00"));

TEST(SharedMemory, ReportsHowMuchMemoryIsAvailable) {
  const std::size_t bytes = std::size_t{1} << 60;

  EXPECT_THAT(
      message_of<OutOfMemoryError>([&] { SharedMemory::create(bytes); }),
      MatchesRegex(
          "cannot allocate " + std::to_string(bytes) +
          " bytes of shared memory: only [0-9]+ bytes are available on this "
          "machine"));
}

TEST(Presence, IsVisibleToOtherRanksUntilTheObjectIsDestroyed) {
  const auto created = SharedMemory::create(100);
  auto opened = SharedMemory::open(created->address());

  EXPECT_FALSE(created->is_present(3));
  opened->hold_presence(3);
  EXPECT_TRUE(created->is_present(3));
  EXPECT_FALSE(created->is_present(2));
  EXPECT_FALSE(created->is_present(4));
  opened.reset();

  EXPECT_FALSE(created->is_present(3));
}

TEST(Presence, BelongsToOneObjectOnly) {
  const auto created = SharedMemory::create(100);
  const auto opened = SharedMemory::open(created->address());
  created->hold_presence(0);

  EXPECT_THAT(
      message_of<InternalError>([&] { opened->hold_presence(0); }),
      HasSubstr("cannot lock the slot of rank 0 in shared memory "));
}

}  // namespace
}  // namespace accelerate
