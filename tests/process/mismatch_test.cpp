// SPDX-License-Identifier: Apache-2.0
// Processes that make different calls: each gets an error immediately, and the
// group stays usable.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/run_processes.h"

namespace accelerate {
namespace {

using testing::HasSubstr;

struct Mismatch {
  std::string scenario;
  std::string text;
};

class MismatchedCalls
    : public testing::TestWithParam<std::tuple<Mismatch, std::string>> {};

TEST_P(MismatchedCalls, ThrowATableOnEveryRankAndTheGroupStaysUsable) {
  const auto& [expected, backend] = GetParam();

  const auto results = run_processes(
      3, test_program_path("process_worker"), {expected.scenario, backend});

  for (const ProcessResult& result : results) {
    EXPECT_EQ(result.exit_code, 0) << describe(result);
    EXPECT_THAT(
        result.output,
        HasSubstr(
            "call: MismatchError: " + expected.text +
            "\nbarrier: ok\nreduce: ok\n"));
    EXPECT_LT(result.seconds, 15);
  }
}

const Mismatch kMismatches[] = {
    {"different_calls",
     "the ranks are in different collective calls\n"
     "  ranks 0, 2: reduce #1 of Float[2, 3] (sum)\n"
     "  rank 1: gather #1 of Float[2, 3]\n"
     "hint: make the same calls in the same order on every rank; do not call "
     "a collective inside `if (is_main_process())`"},
    {"different_shapes",
     "gather #1: the ranks' tensors differ in dimension 1\n"
     "  ranks 0, 2: Float[8, 128]\n"
     "  rank 1: Float[8, 96]\n"
     "hint: use `pad_across_processes` with `.dim = 1` first"},
    {"different_types",
     "reduce #1: the ranks' tensors differ in type\n"
     "  ranks 0, 2: Float[2]\n"
     "  rank 1: Double[2]\n"
     "hint: convert the tensors to one type first"},
};

INSTANTIATE_TEST_SUITE_P(
    Collectives,
    MismatchedCalls,
    testing::Combine(
        testing::ValuesIn(kMismatches),
        testing::Values("shm", "gloo", "network")),
    [](const auto& test) {
      return std::get<0>(test.param).scenario + "_" + std::get<1>(test.param);
    });

TEST(FakeInProcesses, IsRejectedOnEveryRank) {
  const auto results = run_processes(
      2, test_program_path("process_worker"), {"between", "fake", "5000"});

  for (const ProcessResult& result : results) {
    EXPECT_EQ(
        result.output,
        "uncaught: backend `fake` needs all 2 ranks in one process\n"
        "  rank 1: the `fake` backend connects only threads in one process, "
        "but the ranks are in different processes\n")
        << describe(result);
  }
}

}  // namespace
}  // namespace accelerate
