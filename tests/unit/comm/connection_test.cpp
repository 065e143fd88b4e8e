// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/connection.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "accelerate/error.h"
#include "support/message_of.h"

namespace accelerate {
namespace {

/// A backend without operations.
struct EmptyBackend : c10d::Backend {
  using c10d::Backend::Backend;
};

/// How often each of two ranks called `make`; `fails(rank, attempt)` decides
/// whether an attempt fails.
std::array<int, 2> attempts_of(const std::function<bool(int, int)>& fails) {
  std::array<int, 2> attempts{};
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto connect = [&](const int rank) {
    const auto backend =
        connect_all({store, rank, 2}, {}, [&](const auto& part) {
          // The store has no keys of an earlier attempt.
          const std::string key = "rank" + std::to_string(rank);
          EXPECT_FALSE(part->check({key}));
          part->set(key, "was here");
          if (fails(rank, attempts[rank]++)) {
            throw std::runtime_error("connection lost\nframe #0: …");
          }
          return c10::make_intrusive<EmptyBackend>(rank, 2);
        });
    EXPECT_TRUE(backend.defined());
  };
  std::jthread other([&] { connect(1); });
  connect(0);
  return attempts;
}

TEST(ConnectAll, NeedsOneAttemptWhenNothingFails) {
  EXPECT_THAT(
      attempts_of([](int, int) { return false; }), testing::ElementsAre(1, 1));
}

TEST(ConnectAll, RetriesOnEveryRankWhenOneFailed) {
  const auto attempts = attempts_of(
      [](int rank, int attempt) { return rank == 1 && attempt < 2; });

  EXPECT_THAT(attempts, testing::ElementsAre(3, 3));
}

TEST(ConnectAll, ReportsTheErrorOfEachRankAfterThreeAttempts) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto fail = [&](const int rank) {
    return message_of<DistributedError>([&] {
      connect_all(
          {store, rank, 2},
          {},
          [&](const auto&) -> c10::intrusive_ptr<c10d::Backend> {
            if (rank == 1) {
              throw std::runtime_error("connection lost\nframe #0: …");
            }
            return c10::make_intrusive<EmptyBackend>(rank, 2);
          });
    });
  };
  std::string other_message;
  {
    std::jthread other([&] { other_message = fail(1); });
    EXPECT_EQ(
        fail(0),
        "the 2 ranks could not connect to each other in 3 attempts\n"
        "  rank 1: connection lost");
  }
  EXPECT_THAT(other_message, testing::HasSubstr("rank 1: connection lost"));
}

}  // namespace
}  // namespace accelerate
