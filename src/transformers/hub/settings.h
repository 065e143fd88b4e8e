// SPDX-License-Identifier: Apache-2.0
// Where the Hub is, who asks, and how long anything may take.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "config/environment.h"
#include "transformers/hub.h"

namespace transformers::hub {

struct Settings {
  std::string endpoint = "https://huggingface.co";
  std::string token;  ///< Empty: none.
  std::filesystem::path cache;
  bool offline = false;
  bool progress = false;
  std::chrono::milliseconds lock_timeout = std::chrono::hours(6);
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(10);
  /// For an answer without a file in it, as a whole.
  std::chrono::milliseconds answer_timeout = std::chrono::seconds(30);
  /// A file's bytes may pause so long.
  std::chrono::milliseconds stall_timeout = std::chrono::seconds(30);
  /// Attempts without a byte of progress, and in all.
  int attempts = 5;
  int most_attempts = 50;
  /// Before the second attempt; doubles with each, up to the other.
  std::chrono::milliseconds first_pause = std::chrono::seconds(1);
  std::chrono::milliseconds longest_pause = std::chrono::seconds(16);
};

/// Throws `ConfigError` for a variable that has no sense.
Settings make_settings(
    const accelerate::Environment& environment, const ResolveOptions& options);

}  // namespace transformers::hub
