// SPDX-License-Identifier: Apache-2.0
// Whether the kernel's memory killer was at work.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace accelerate {

/// Counts the kernel's memory kills from construction on: in this process's
/// control group where it has one, in the whole system otherwise.
class MemoryKillWatch {
 public:
  explicit MemoryKillWatch(const std::string& root = "");

  /// Whether one happened since then; nothing where the kernel does not say.
  std::optional<bool> happened() const;

 private:
  std::optional<std::int64_t> count() const;

  std::string root_;
  std::optional<std::int64_t> before_;
};

}  // namespace accelerate
