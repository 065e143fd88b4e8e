// SPDX-License-Identifier: Apache-2.0
// Log lines of many processes that stay readable.
//
//     const auto logger = accelerate::get_logger("train");
//     logger.info("12 steps done");                           // once
//     logger.info("my shard", {.main_process_only = false});  // everywhere
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "accelerate/export.h"

namespace accelerate {

enum class LogLevel { debug, info, warning, error, critical };

/// Parses a level in any case; throws `ArgumentError` that names the choices.
ACCELERATE_API LogLevel parse_log_level(std::string_view name);
ACCELERATE_API std::string_view name_of(LogLevel level);

struct LogOptions {
  bool main_process_only = true;
  /// One process after the other, by index. Collective; overrides
  /// `main_process_only`.
  bool in_order = false;
};

/// Writes lines like `WARNING train: [RANK 0] low memory` to stderr.
///
/// Thread safety: all members may be called from any thread, except with
/// `in_order`.
class ACCELERATE_API Logger {
 public:
  Logger(std::string name, LogLevel level);

  /// Throws `StateError` when this process has no `PartialState` yet.
  void log(LogLevel level, const std::string& message, LogOptions options = {})
      const;

  void debug(const std::string& message, LogOptions options = {}) const;
  void info(const std::string& message, LogOptions options = {}) const;
  void warning(const std::string& message, LogOptions options = {}) const;
  void error(const std::string& message, LogOptions options = {}) const;
  void critical(const std::string& message, LogOptions options = {}) const;
  /// Says each message once per process, whichever logger was told.
  void warning_once(const std::string& message, LogOptions options = {}) const;

  LogLevel level() const { return level_; }
  bool is_enabled_for(LogLevel level) const { return level >= level_; }

 private:
  std::string name_;
  LogLevel level_;
};

/// A logger; its level is `level`, else `ACCELERATE_LOG_LEVEL`, else
/// `warning`.
ACCELERATE_API Logger
get_logger(std::string name, std::optional<LogLevel> level = std::nullopt);

}  // namespace accelerate
