// SPDX-License-Identifier: Apache-2.0
// The text of a progress bar.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace accelerate {

struct Progress {
  std::int64_t n = 0;
  std::optional<std::int64_t> total = std::nullopt;
  std::chrono::duration<double> elapsed = std::chrono::duration<double>(0);
  std::string description = {};
  std::string unit = "it";
  std::string postfix = {};
};

/// Returns one line without a newline: `train:  40%|████      | 4/10
/// [00:02<00:03, 2.00it/s]`.
std::string progress_line(const Progress& progress);

}  // namespace accelerate
