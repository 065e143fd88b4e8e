// SPDX-License-Identifier: Apache-2.0
#include "base/safetensors_header.h"

#include <fstream>

#include <unistd.h>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "support/resident_memory.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

std::string length_bytes(std::uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) {
    bytes.push_back(static_cast<char>(length >> (8 * i) & 0xff));
  }
  return bytes;
}

std::string tensors_file(const std::string& json, std::size_t data = 0) {
  return length_bytes(json.size()) + json + std::string(data, '\0');
}

std::string write_file_with(const std::string& content) {
  const std::string path = fresh_folder() / "model.safetensors";
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

TEST(SafetensorsHeader, ReadsTensorsInTheOrderOfTheirBytes) {
  const std::string json =
      R"({"b":{"dtype":"U8","shape":[3],"data_offsets":[16,19]},)"
      R"("__metadata__":{"format":"pt"},)"
      R"("a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
      R"("e":{"dtype":"I64","shape":[0,7],"data_offsets":[19,19]}}  )";

  const auto header =
      read_safetensors_header(write_file_with(tensors_file(json, 19)));

  ASSERT_EQ(header.tensors.size(), 3U);
  EXPECT_EQ(header.tensors[0].name, "a");
  EXPECT_EQ(header.tensors[0].begin, 8 + json.size());
  EXPECT_EQ(header.tensors[0].elements(), 4);
  EXPECT_EQ(header.tensors[1].name, "b");
  EXPECT_EQ(header.tensors[1].end, 8 + json.size() + 19);
  EXPECT_EQ(header.tensors[2].elements(), 0);
  EXPECT_EQ(header.metadata.at("format"), "pt");
}

struct BadHeader {
  const char* name;
  std::string content;
  std::string message;  ///< The error text after the path.
};

std::string dimensions(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += ",1";
  }
  return text;
}

std::string entry(const std::string& rest) {
  return "{\"a\":{" + rest + "}}";
}

std::vector<BadHeader> bad_headers() {
  const std::string f32 = R"("dtype":"F32","shape":[1],"data_offsets":)";
  return {
      {"empty", "", "byte 0: the file ends before its header"},
      {"seven_bytes", "1234567", "byte 7: the file ends before its header"},
      {"lfs_pointer",
       "version https://git-lfs.example/spec/v1\noid sha256:0\nsize 9\n",
       "byte 0: this is a Git LFS pointer, not the file itself"},
      {"longer_than_the_file",
       length_bytes(3) + "{}",
       "byte 0: the header length is 3 bytes, but only 2 bytes follow"},
      {"longer_than_allowed",
       length_bytes(100'000'001) + "{}",
       "byte 0: the header length is 100000001 bytes, more than the "
       "100000000 allowed"},
      {"length_overflows",
       length_bytes(~std::uint64_t{0}) + "{}",
       "byte 0: the header length is 18446744073709551615 bytes, more than "
       "the 100000000 allowed"},
      {"not_utf8",
       tensors_file("{\"\xff\":1}"),
       "byte 10: the header is not UTF-8"},
      {"not_an_object",
       tensors_file("[1]"),
       "byte 8: the header is not a JSON object"},
      {"not_json",
       tensors_file("{\"a\":}"),
       "byte 13: syntax error while parsing value - unexpected '}'; expected "
       "'[', '{', or a literal"},
      {"duplicate",
       tensors_file("{\"a\":1,\"a\":2}"),
       "byte 18: the key `a` appears twice"},
      {"not_an_entry",
       tensors_file("{\"a\":1}"),
       "byte 9: `a`: expected an object with only `dtype`, `shape` and "
       "`data_offsets`"},
      {"unknown_dtype",
       tensors_file(
           entry(R"("dtype":"F33","shape":[],"data_offsets":[0,4])"), 4),
       "byte 9: `a`: unknown dtype \"F33\""},
      {"negative_extent",
       tensors_file(
           entry(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])"), 4),
       "byte 9: `a`: `shape` contains -1, which is not a "
       "whole number from 0 to 9223372036854775807"},
      {"fractional_offset",
       tensors_file(entry(f32 + "[0,4.5]"), 4),
       "byte 9: `a`: `data_offsets` contains 4.5, which is not a "
       "whole number from 0 to 9223372036854775807"},
      {"one_offset",
       tensors_file(entry(f32 + "[0]"), 4),
       "byte 9: `a`: `data_offsets` is not a pair"},
      {"backwards",
       tensors_file(entry(f32 + "[4,0]"), 4),
       "byte 9: `a`: `data_offsets` are 4 and 0, but the first must not be "
       "greater than the second"},
      {"past_the_end",
       tensors_file(entry(f32 + "[0,8]"), 4),
       "byte 9: `a`: `data_offsets` are 0 and 8, but the file has only 4 "
       "bytes of data"},
      {"shape_and_length",
       tensors_file(entry(f32 + "[0,8]"), 8),
       "byte 9: `a`: the shape needs 4 bytes, but `data_offsets` span 8"},
      {"shape_overflows",
       tensors_file(
           entry(R"("dtype":"F32","shape":[4294967296,4294967296],)"
                 R"("data_offsets":[0,4])"),
           4),
       "byte 9: `a`: the shape's size in bytes overflows or is not a whole "
       "number; `data_offsets` span 4"},
      {"shape_overflows_with_0",
       tensors_file(entry(R"("dtype":"F32","shape":[4294967296,4294967296,0],)"
                          R"("data_offsets":[0,0])")),
       "byte 9: `a`: the shape's size in bytes overflows or is not a whole "
       "number; `data_offsets` span 0"},
      {"too_many_dimensions",
       tensors_file(
           entry(
               R"("dtype":"U8","shape":[1)" + dimensions(64) +
               R"(],"data_offsets":[0,1])"),
           1),
       "byte 166: an array has more than 64 elements"},
      {"half_a_byte",
       tensors_file(
           entry(R"("dtype":"F4","shape":[3],"data_offsets":[0,2])"), 2),
       "byte 9: `a`: the shape's size in bytes overflows or is not a whole "
       "number; `data_offsets` span 2"},
      {"gap_at_the_front",
       tensors_file(entry(f32 + "[4,8]"), 8),
       "byte 62: 4 bytes between the header and `a` do not belong to any "
       "tensor"},
      {"gap_between",
       tensors_file("{\"a\":{" + f32 + "[0,4]},\"b\":{" + f32 + "[8,12]}}", 12),
       "byte 120: 4 bytes between `a` and `b` do not belong to any tensor"},
      {"gap_at_the_end",
       tensors_file(entry(f32 + "[0,4]"), 8),
       "byte 66: 4 bytes after `a` do not belong to any tensor"},
      {"overlap",
       tensors_file("{\"a\":{" + f32 + "[0,4]},\"b\":{" + f32 + "[2,6]}}", 6),
       "byte 117: `b` overlaps `a`"},
      {"metadata_number",
       tensors_file(R"({"__metadata__":{"format":1}})"),
       "byte 9: `__metadata__`: `format` is not a string"},
  };
}

void PrintTo(const BadHeader& header, std::ostream* out) {
  *out << header.name;
}

class BadSafetensors : public testing::TestWithParam<BadHeader> {};

TEST_P(BadSafetensors, IsRejectedWithPathAndByteOffset) {
  const std::string path = write_file_with(GetParam().content);
  try {
    (void)read_safetensors_header(path);
    FAIL() << "no error";
  } catch (const FormatError& error) {
    EXPECT_EQ(error.what(), path + ": " + GetParam().message);
  }
}

INSTANTIATE_TEST_SUITE_P(
    SafetensorsHeader,
    BadSafetensors,
    testing::ValuesIn(bad_headers()),
    [](const auto& tested) { return std::string(tested.param.name); });

// LibTorch tensors have at most 64 dimensions.
TEST(SafetensorsHeader, AcceptsSixtyFourDimensions) {
  const auto header = read_safetensors_header(write_file_with(tensors_file(
      entry(
          R"("dtype":"U8","shape":[1)" + dimensions(63) +
          R"(],"data_offsets":[0,1])"),
      1)));

  EXPECT_EQ(header.tensors.at(0).shape.size(), 64U);
}

// The shape contains 20 MB of numbers.
TEST(SafetensorsHeader, NeedsLittleMemoryForAShapeThatIsTooLong) {
  const std::string json =
      entry(R"("dtype":"U8","shape":[1)" + dimensions(10'000'000));
  const std::int64_t before = resident_kib();

  EXPECT_THROW(
      (void)parse_safetensors_header(json, json.size() + 9, "x"), FormatError);

  std::int64_t peak = 0;
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmHWM:") {
      status >> peak;
    }
  }
  EXPECT_LT(peak - before, 200 * 1024);
}

TEST(SafetensorsHeader, ThrowsForAMissingFile) {
  EXPECT_THROW((void)read_safetensors_header("/no/such/file"), IoError);
}

}  // namespace
}  // namespace accelerate
