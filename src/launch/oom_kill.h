// SPDX-License-Identifier: Apache-2.0
// Detects kills by the Linux kernel's OOM killer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace accelerate {

/// Detects OOM kills since construction, in this process's cgroup and in the
/// whole system.
class OomKillMonitor {
 public:
  /// `root` is prepended to the paths of the files in /proc and /sys, for
  /// tests.
  explicit OomKillMonitor(const std::string& root = "");

  /// Returns whether an OOM kill has happened since construction; empty if the
  /// Linux kernel does not report OOM kills.
  std::optional<bool> happened() const;

 private:
  std::optional<std::int64_t> count() const;

  std::string root_;
  std::optional<std::int64_t> before_;
};

}  // namespace accelerate
