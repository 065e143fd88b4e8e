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

// LibTorch's messages end in a stack trace.
std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> connect_all(
    const Seat& seat, const Patience& patience, const MakeBackend& make) {
  std::string problems;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const std::string name = str_cat("connection", attempt);
    const auto made = std::make_shared<c10::intrusive_ptr<c10d::Backend>>();
    const auto part = c10::make_intrusive<c10d::PrefixStore>(name, seat.store);
    std::string outcome = kConnected;
    try {
      // It asks the store, which may be in a process that was stopped.
      if (!BoundedCall().returned_within(
              patience.timeout, [=] { *made = make(part); })) {
        outcome =
            str_cat("no connection within ", name_duration(patience.timeout));
      }
    } catch (const std::exception& error) {
      outcome = first_line(error.what());
    }
    const auto outcomes = meet(seat, name, outcome, patience);
    problems.clear();
    for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
      if (outcomes[rank] != kConnected) {
        problems += str_cat("\n  rank ", rank, ": ", outcomes[rank]);
      }
    }
    if (problems.empty()) {
      return *made;
    }
  }
  throw DistributedError(
      str_cat(
          "the ",
          seat.size,
          " ranks could not connect to each other in ",
          kAttempts,
          " attempts",
          problems),
      "check that every host can reach the others, and choose the network "
      "with `GLOO_SOCKET_IFNAME`");
}

}  // namespace accelerate
