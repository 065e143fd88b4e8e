// SPDX-License-Identifier: Apache-2.0
#include "hub/retry.h"

#include <algorithm>
#include <random>
#include <thread>

#include "base/text.h"

namespace transformers::hub {

bool Retry::wait_for_next_attempt(
    const std::optional<std::string>& retry_after) {
  ++attempts_;
  ++without_progress_;
  if (attempts_ >= options_.max_attempts ||
      without_progress_ >= options_.attempts) {
    return false;
  }
  const int doublings = std::min(without_progress_ - 1, 20);
  auto pause =
      std::min(options_.max_pause, options_.first_pause * (1 << doublings));
  // Adds jitter, because processes that failed at the same time should not
  // retry at the same time.
  std::random_device device;
  pause += pause * (device() % 256) / 1024;
  if (retry_after) {
    const auto seconds = accelerate::parse_integer(*retry_after);
    if (seconds && *seconds > 0) {
      pause = std::max<std::chrono::milliseconds>(
          pause, std::chrono::seconds(std::min<std::int64_t>(*seconds, 60)));
    }
  }
  std::this_thread::sleep_for(pause);
  return true;
}

}  // namespace transformers::hub
