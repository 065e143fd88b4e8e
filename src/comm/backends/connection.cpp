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

// LibTorch's messages end with a stack trace.
std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

Json connect(
    const c10::intrusive_ptr<c10d::Store>& store,
    const MakeBackend& make,
    const std::shared_ptr<c10::intrusive_ptr<c10d::Backend>>& backend,
    std::chrono::milliseconds timeout) {
  bool returned = false;
  try {
    // `make` calls the store, whose process may be stopped.
    returned =
        BoundedCall().returned_within(timeout, [=] { *backend = make(store); });
  } catch (const std::exception& error) {
    throw DistributedError(first_line(error.what()));
  }
  if (!returned) {
    throw DistributedError(
        str_cat("not connected within ", name_duration(timeout)));
  }
  return {};
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
    const RankOutcomes connected = try_collectively(
        through_store(context, name, limits),
        [&] { return connect(store, make, backend, limits.timeout); });
    if (connected.all_succeeded()) {
      return *backend;
    }
    problems = connected.table();
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
