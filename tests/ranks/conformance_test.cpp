// SPDX-License-Identifier: Apache-2.0
// Tests every operation of every backend, with ranks as threads.
#include "support/conformance.h"

#include <gtest/gtest.h>

#include "support/run_on_ranks.h"

namespace accelerate {
namespace {

using Case = std::tuple<Backend, int, std::size_t>;

class EveryBackend : public testing::TestWithParam<Case> {};

TEST_P(EveryBackend, MatchesThePlainImplementation) {
  const auto [backend, size, check] = GetParam();

  run_on_ranks(size, quick(backend), conformance_checks()[check].second);
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  const auto [backend, size, check] = info.param;
  return conformance_checks()[check].first + "_" +
         std::string(name_of(backend)) + "_" + std::to_string(size);
}

INSTANTIATE_TEST_SUITE_P(
    Collectives,
    EveryBackend,
    testing::Combine(
        testing::Values(Backend::shm, Backend::gloo, Backend::fake),
        testing::Values(2, 3, 5),
        testing::Range<std::size_t>(0, conformance_checks().size())),
    case_name);

class MixedCollectives : public testing::TestWithParam<Backend> {};

TEST_P(MixedCollectives, TenThousandCollectivesInRandomOrder) {
  run_on_ranks(3, quick(GetParam()), [](Group& group) {
    mixed_collectives(group, 10'000, 20261115);
  });
}

TEST_P(MixedCollectives, MovesSixtyFourMebibytes) {
  run_on_ranks(2, quick(GetParam()), large_collectives);
  if (GetParam() == Backend::shm) {
    run_on_ranks(3, quick(GetParam()), large_collectives);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Collectives,
    MixedCollectives,
    testing::Values(Backend::shm, Backend::gloo, Backend::fake),
    [](const auto& test) { return std::string(name_of(test.param)); });

class RankOrder : public testing::TestWithParam<std::tuple<Backend, int>> {};

TEST_P(RankOrder, SumsRepeatBitForBit) {
  const auto [backend, size] = GetParam();

  run_on_ranks(size, quick(backend), sums_in_rank_order);
}

INSTANTIATE_TEST_SUITE_P(
    Collectives,
    RankOrder,
    testing::Combine(
        testing::Values(Backend::shm, Backend::fake), testing::Values(2, 3, 5)),
    [](const auto& test) {
      return std::string(name_of(std::get<0>(test.param))) + "_" +
             std::to_string(std::get<1>(test.param));
    });

}  // namespace
}  // namespace accelerate
