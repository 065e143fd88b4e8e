// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/connection.h"

#include <algorithm>
#include <memory>
#include <string>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "comm/bounded_call.h"

namespace accelerate {
namespace {

constexpr int kAttempts = 3;
constexpr const char* kConnected = "";

// LibTorch's messages end with a stack trace.
std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> connect_all(
    const RankContext& context,
    const WaitLimits& limits,
    const MakeBackend& make) {
  std::string problems;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const std::string name = str_cat("connection", attempt);
    const auto backend = std::make_shared<c10::intrusive_ptr<c10d::Backend>>();
    const auto store =
        c10::make_intrusive<c10d::PrefixStore>(name, context.store);
    std::string outcome = kConnected;
    try {
      // It calls the store, whose process may be stopped.
      if (!BoundedCall().returned_within(
              limits.timeout, [=] { *backend = make(store); })) {
        outcome =
            str_cat("not connected within ", name_duration(limits.timeout));
      }
    } catch (const std::exception& error) {
      outcome = first_line(error.what());
    }
    const auto outcomes = gather_through_store(context, name, outcome, limits);
    problems.clear();
    for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
      if (outcomes[rank] != kConnected) {
        problems += str_cat("\n  rank ", rank, ": ", outcomes[rank]);
      }
    }
    if (problems.empty()) {
      return *backend;
    }
  }
  throw DistributedError(
      str_cat(
          "the ",
          context.size,
          " ranks could not connect to each other in ",
          kAttempts,
          " attempts",
          problems),
      "check that the machines can reach each other, and choose the network "
      "interface with `GLOO_SOCKET_IFNAME`");
}

}  // namespace accelerate
