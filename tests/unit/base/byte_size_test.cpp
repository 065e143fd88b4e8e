// SPDX-License-Identifier: Apache-2.0
#include "accelerate/byte_size.h"

#include <gtest/gtest.h>

#include "accelerate/error.h"

namespace accelerate {
namespace {

TEST(ByteSize, ReadsNumbersAndUnits) {
  EXPECT_EQ(ByteSize(12).bytes(), 12U);
  EXPECT_EQ(ByteSize(std::uint64_t{1} << 40).bytes(), std::uint64_t{1} << 40);
  EXPECT_EQ(ByteSize("700").bytes(), 700U);
  EXPECT_EQ(ByteSize("5GB").bytes(), 5'000'000'000U);
  EXPECT_EQ(ByteSize("5 GiB").bytes(), std::uint64_t{5} << 30);
  EXPECT_EQ(ByteSize(std::string("3MiB")).bytes(), 3U << 20);
  EXPECT_EQ(ByteSize("2KB").bytes(), 2000U);
  EXPECT_EQ(ByteSize("1.5GB").bytes(), 1'500'000'000U);
  EXPECT_EQ(ByteSize("0.5 KiB").bytes(), 512U);
}

TEST(ByteSize, RejectsInvalidSizes) {
  for (const char* text :
       {"",
        "GB",
        "5Gb",
        "5 apples",
        "-1",
        "-1.5GB",
        ".5GB",
        "1.5",
        "1.0001KB",
        "1.5.5GB",
        "1e3GB",
        "99999999999TB",
        "99999999999.5TB"}) {
    EXPECT_THROW(ByteSize{text}, ArgumentError) << text;
  }
  EXPECT_THROW(ByteSize(-5), ArgumentError);
  try {
    const ByteSize size("5Gb");
    FAIL() << size.bytes();
  } catch (const ArgumentError& error) {
    EXPECT_STREQ(error.what(), "`5Gb` is not a file size");
  }
}

}  // namespace
}  // namespace accelerate
