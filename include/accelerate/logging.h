// SPDX-License-Identifier: Apache-2.0
// Logging that stays readable with many processes.
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

/// Parses a log level name, ignoring case. Throws an `ArgumentError` that lists
/// the valid names if `name` is unknown.
ACCELERATE_API LogLevel parse_log_level(std::string_view name);
ACCELERATE_API std::string_view name_of(LogLevel level);

struct LogOptions {
  bool main_process_only = true;
  /// Whether every process logs, one after the other, in the order of the
  /// process indices. Logging is then collective. Overrides
  /// `main_process_only`.
  bool in_order = false;
};

/// Writes lines like `WARNING train: [RANK 0] low memory` to stderr.
///
/// Thread safety: several threads may log at once, except with `in_order`.
class ACCELERATE_API Logger {
 public:
  Logger(std::string name, LogLevel level);

  /// Logs a message. Throws `StateError` when this process has no
  /// `PartialState` yet.
  void log(LogLevel level, const std::string& message, LogOptions options = {})
      const;

  void debug(const std::string& message, LogOptions options = {}) const;
  void info(const std::string& message, LogOptions options = {}) const;
  void warning(const std::string& message, LogOptions options = {}) const;
  void error(const std::string& message, LogOptions options = {}) const;
  void critical(const std::string& message, LogOptions options = {}) const;
  /// Like `warning`, but logs each message only once per process, even if it is
  /// passed to different loggers.
  void warning_once(const std::string& message, LogOptions options = {}) const;

  LogLevel level() const { return level_; }
  bool is_enabled_for(LogLevel level) const { return level >= level_; }

 private:
  std::string name_;
  LogLevel level_;
};

/// Returns a logger. Its level is `level` if set, otherwise the value of the
/// environment variable `ACCELERATE_LOG_LEVEL`, otherwise `warning`.
ACCELERATE_API Logger
get_logger(std::string name, std::optional<LogLevel> level = std::nullopt);

}  // namespace accelerate
