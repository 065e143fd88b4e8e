// SPDX-License-Identifier: Apache-2.0
#include "transformers/batch_tensors.h"

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "support/message_of.h"

namespace transformers {
namespace {

Encoding row_of(std::vector<std::int64_t> ids) {
  Encoding row;
  row.attention_mask.assign(ids.size(), 1);
  row.input_ids = std::move(ids);
  return row;
}

TEST(BatchTensors, HoldTheRows) {
  const BatchEncoding batch{{row_of({1, 2, 3}), row_of({4, 5, 6})}, {}};

  const auto tensors = to_tensors(batch);

  ASSERT_EQ(tensors.size(), 2u);
  const at::Tensor& ids = tensors.at("input_ids");
  EXPECT_EQ(ids.sizes(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(ids.scalar_type(), at::kLong);
  EXPECT_EQ(ids[1][2].item().toLong(), 6);
  EXPECT_EQ(tensors.at("attention_mask").sum().item().toLong(), 6);
}

TEST(BatchTensors, OneRowIsABatchOfOne) {
  EXPECT_EQ(
      to_tensors(row_of({7, 8})).at("input_ids").sizes(),
      (std::vector<std::int64_t>{1, 2}));
}

TEST(BatchTensors, RowsOfDifferentLengthAreReported) {
  const BatchEncoding batch{{row_of({1, 2, 3}), row_of({4})}, {}};

  EXPECT_EQ(
      accelerate::message_of<accelerate::ArgumentError>(
          [&] { (void)to_tensors(batch); }),
      "the number of tokens is 3 in row 0, but 1 in row 1");
}

}  // namespace
}  // namespace transformers
