// SPDX-License-Identifier: Apache-2.0
// Options for downloads from the Hub: server, token, cache and timeouts.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>

#include "config/environment.h"
#include "transformers/hub.h"

namespace transformers::hub {

struct HubOptions {
  std::string endpoint = "https://huggingface.co";
  std::string token;  ///< The token to send; empty if no token is sent.
  std::filesystem::path cache;
  bool offline = false;
  bool progress = false;
  std::chrono::milliseconds lock_timeout = std::chrono::hours(6);
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(10);
  /// Timeout for a whole response that does not contain a file.
  std::chrono::milliseconds response_timeout = std::chrono::seconds(30);
  /// Maximum time without new data while a file is transferred.
  std::chrono::milliseconds stall_timeout = std::chrono::seconds(30);
  /// Maximum number of consecutive attempts without progress.
  int attempts = 5;
  /// Maximum number of attempts in total.
  int max_attempts = 50;
  /// Pause before the second attempt. The pause doubles with each attempt
  /// without progress, up to `max_pause`.
  std::chrono::milliseconds first_pause = std::chrono::seconds(1);
  std::chrono::milliseconds max_pause = std::chrono::seconds(16);
};

/// Returns whether other machines could read requests to `endpoint`: the URL
/// uses HTTP without TLS, and the server is not on this machine.
bool is_unencrypted(std::string_view endpoint);

/// Combines `options` with environment variables such as `HF_ENDPOINT`. Throws
/// `ConfigError` for a variable with an invalid value.
HubOptions make_hub_options(
    const accelerate::Environment& environment, const ResolveOptions& options);

}  // namespace transformers::hub
