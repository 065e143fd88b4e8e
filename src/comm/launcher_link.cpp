// SPDX-License-Identifier: Apache-2.0
#include "comm/launcher_link.h"

#include <exception>
#include <memory>
#include <mutex>
#include <optional>

namespace accelerate {
namespace {

// One connection of its own: a status must not wait behind a rank's `get`.
struct Link {
  std::mutex mutex;
  std::optional<StoreClientOptions> options;
  std::unique_ptr<StoreClient> client;
};

Link& link() {
  static Link instance;
  return instance;
}

template <typename Say>
void say_to_launcher(Say say) noexcept {
  try {
    Link& shared = link();
    const std::scoped_lock lock(shared.mutex);
    if (!shared.options) {
      return;
    }
    if (shared.client == nullptr) {
      shared.client = std::make_unique<StoreClient>(*shared.options);
    }
    say(*shared.client);
  } catch (const std::exception&) {
    // The launcher is gone, or ends this job; others will say so.
  }
}

}  // namespace

void set_launcher_link(const StoreClientOptions& options) {
  const std::scoped_lock lock(link().mutex);
  link().options = options;
  link().client.reset();
}

void tell_launcher(const std::string& text) noexcept {
  say_to_launcher([&](StoreClient& client) { client.set_status(text); });
}

void report_failure_to_launcher(const std::string& text) noexcept {
  say_to_launcher([&](StoreClient& client) { client.report_failure(text); });
}

}  // namespace accelerate
