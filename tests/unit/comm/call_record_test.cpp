// SPDX-License-Identifier: Apache-2.0
#include "comm/call_record.h"

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

using Records = std::vector<CallRecord>;

CallRecord gather_of(
    std::vector<std::int64_t> sizes, at::ScalarType type = at::kFloat) {
  return {"gather", 5, "", {{type, std::move(sizes)}}};
}

TEST(CallRecord, SurvivesEncodingAndDecoding) {
  const CallRecord record = {
      "reduce",
      1ULL << 40,
      "sum",
      {{at::kBFloat16, {}}, {at::kLong, {0, 3}}, {at::kFloat, {1, 2, 3}}}};

  const CallRecord read = CallRecord::decode(record.encode());

  EXPECT_EQ(read.encode(), record.encode());
  EXPECT_EQ(
      read.describe(),
      "reduce #1099511627776 of BFloat16[], Long[0, 3], Float[1, 2, 3] (sum)");
}

TEST(CallRecord, RejectsTruncatedText) {
  const std::string text = gather_of({8, 128}).encode();

  for (std::size_t bytes = 0; bytes < text.size(); ++bytes) {
    EXPECT_EQ(
        message_of<InternalError>(
            [&] { CallRecord::decode(text.substr(0, bytes)); }),
        "a call record is truncated after " + std::to_string(bytes) + " bytes");
  }
}

TEST(CheckAgreement, AcceptsOneFreeDimension) {
  EXPECT_NO_THROW(check_agreement({gather_of({8, 4}), gather_of({0, 4})}, 0));
  EXPECT_NO_THROW(check_agreement({gather_of({8, 4}), gather_of({8, 4})}));
}

struct Mismatch {
  std::string name;
  Records records;
  std::optional<std::int64_t> free_dim;
  std::string text;
  std::string hint;
};

class CheckAgreementFails : public testing::TestWithParam<Mismatch> {};

TEST_P(CheckAgreementFails, ThrowsATableOfRanks) {
  const Mismatch& mismatch = GetParam();
  try {
    check_agreement(mismatch.records, mismatch.free_dim);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const MismatchError& error) {
    EXPECT_EQ(error.what(), mismatch.text);
    EXPECT_EQ(error.hint(), mismatch.hint);
  }
}

const char* const kSameCalls =
    "make the same calls in the same order on every rank; do not call a "
    "collective inside `if (is_main_process())`";

INSTANTIATE_TEST_SUITE_P(
    CallRecord,
    CheckAgreementFails,
    testing::Values(
        Mismatch{
            "Operation",
            {{"reduce", 5, "sum", {{at::kFloat, {2}}}},
             gather_of({2}),
             gather_of({2})},
            0,
            "the ranks are in different collective calls\n"
            "  rank 0: reduce #5 of Float[2] (sum)\n"
            "  ranks 1, 2: gather #5 of Float[2]",
            kSameCalls},
        Mismatch{
            "SequenceNumber",
            {{"gather", 5, "", {}}, {"gather", 6, "", {}}},
            std::nullopt,
            "the ranks are in different collective calls\n"
            "  rank 0: gather #5\n"
            "  rank 1: gather #6",
            kSameCalls},
        Mismatch{
            "Arguments",
            {{"broadcast", 2, "from 0", {}}, {"broadcast", 2, "from 1", {}}},
            std::nullopt,
            "the ranks are in different collective calls\n"
            "  rank 0: broadcast #2 (from 0)\n"
            "  rank 1: broadcast #2 (from 1)",
            kSameCalls},
        Mismatch{
            "NumberOfTensors",
            {{"gather", 5, "", {{at::kFloat, {2}}, {at::kFloat, {3}}}},
             gather_of({2})},
            0,
            "the ranks are in different collective calls\n"
            "  rank 0: gather #5 of Float[2], Float[3]\n"
            "  rank 1: gather #5 of Float[2]",
            kSameCalls},
        Mismatch{
            "Type",
            {gather_of({2}), gather_of({2}, at::kHalf)},
            0,
            "gather #5: the ranks' tensors differ in type\n"
            "  rank 0: Float[2]\n"
            "  rank 1: Half[2]",
            "convert the tensors to one type first"},
        Mismatch{
            "Dimension",
            {gather_of({8, 128}), gather_of({9, 128}), gather_of({8, 96})},
            0,
            "gather #5: the ranks' tensors differ in dimension 1\n"
            "  rank 0: Float[8, 128]\n"
            "  rank 1: Float[9, 128]\n"
            "  rank 2: Float[8, 96]",
            "use `pad_across_processes` with `.dim = 1` first"},
        Mismatch{
            "NumberOfDimensions",
            {gather_of({8}), gather_of({8, 1})},
            0,
            "gather #5: the ranks' tensors differ in their number of "
            "dimensions\n"
            "  rank 0: Float[8]\n"
            "  rank 1: Float[8, 1]",
            "pass tensors with the same number of dimensions"},
        Mismatch{
            "OneOfSeveralTensors",
            {{"gather", 5, "", {{at::kInt, {1}}, {at::kInt, {1, 2}}}},
             {"gather", 5, "", {{at::kInt, {1}}, {at::kInt, {1, 3}}}}},
            0,
            "gather #5, tensor 2 of 2: the ranks' tensors differ in dimension "
            "1\n"
            "  rank 0: Int[1, 2]\n"
            "  rank 1: Int[1, 3]",
            "use `pad_across_processes` with `.dim = 1` first"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace accelerate
