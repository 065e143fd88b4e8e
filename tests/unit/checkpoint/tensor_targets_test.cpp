// SPDX-License-Identifier: Apache-2.0
// Requested ranges: which bytes of which files are read.
#include "checkpoint/tensor_targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "accelerate/safetensors.h"
#include "support/message_of.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

/// Tensor `a` of 10 elements in three ranges, in two files.
class RequestedRangesTest : public testing::Test {
 protected:
  void SetUp() override {
    const at::Tensor all = at::arange(10, at::kFloat);
    save_safetensors(
        {{"a@0", all.slice(0, 0, 3)}, {"a@8", all.slice(0, 8, 10)}},
        folder_.path() / "first");
    save_safetensors({{"a@3", all.slice(0, 3, 8)}}, folder_.path() / "second");
    for (const char* name : {"first", "second"}) {
      files_.push_back(open_tensor_file(folder_.path() / name, {}));
    }
    tensors_ = ranged_tensors_in(
        files_,
        Json::object(
            {{"a",
              Json::object({{"dtype", "F32"}, {"shape", Json::array({10})}})}}),
        folder_.path());
  }

  RequestedRanges request(const std::vector<RangeRequest>& requests) const {
    return allocate_requested(files_, tensors_, requests, "optimizer");
  }

  /// For each file: the number of bytes to read.
  std::vector<std::size_t> bytes(const RequestedRanges& requested) const {
    std::vector<std::size_t> bytes(files_.size());
    for (const FileRange& read : requested.reads) {
      bytes[read.file] += read.bytes;
    }
    return bytes;
  }

  const TemporaryDirectory folder_;
  std::vector<TensorFileToRead> files_;
  SavedTensors tensors_;
};

TEST_F(RequestedRangesTest, AreReadFromTheFilesThatHaveThem) {
  const RequestedRanges requested = request({{"a", 2, 7}});

  EXPECT_THAT(bytes(requested), testing::ElementsAre(2 * 4, 5 * 4));
  EXPECT_THAT(
      read_file_ranges(files_, requested.reads, 2),
      testing::Each(testing::IsEmpty()));
  EXPECT_TRUE(
      at::equal(requested.ranges[0].values, at::arange(2, 9, at::kFloat)));
  EXPECT_EQ(requested.ranges[0].offset, 2);
  EXPECT_EQ(requested.ranges[0].shape, std::vector<std::int64_t>{10});
}

TEST_F(RequestedRangesTest, ReadNoOtherBytes) {
  EXPECT_THAT(
      bytes(request({{"a", 4, 1}, {"a", 7, 1}})),
      testing::ElementsAre(0, 2 * 4));
  EXPECT_THAT(bytes(request({{"a", 10, 0}})), testing::ElementsAre(0, 0));
  EXPECT_THAT(bytes(request({})), testing::ElementsAre(0, 0));
}

TEST_F(RequestedRangesTest, MustExist) {
  EXPECT_EQ(
      message_of<ArgumentError>([&] { request({{"b", 0, 1}}); }),
      "`optimizer` has no tensor `b`");
  EXPECT_EQ(
      message_of<ArgumentError>([&] { request({{"a", 8, 3}}); }),
      "elements [8, 11) of tensor `a` in `optimizer` were requested, but the "
      "tensor has only elements [0, 10)");
  EXPECT_THAT(
      message_of<ArgumentError>([&] { request({{"a", 11, 0}}); }),
      testing::StartsWith("elements [11, 11) of tensor `a`"));
  EXPECT_THAT(
      message_of<ArgumentError>([&] { request({{"a", -1, 2}}); }),
      testing::StartsWith("elements [-1, 1) of tensor `a`"));
}

TEST_F(RequestedRangesTest, ReportFilesThatAreTooShort) {
  std::filesystem::resize_file(
      folder_.path() / "second",
      std::filesystem::file_size(folder_.path() / "second") - 1);

  EXPECT_THAT(
      read_file_ranges(files_, request({{"a", 0, 10}}).reads, 1),
      testing::ElementsAre("", testing::StartsWith("ends too early")));
}

}  // namespace
}  // namespace accelerate
