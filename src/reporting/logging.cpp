// SPDX-License-Identifier: Apache-2.0
#include "accelerate/logging.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <mutex>
#include <set>
#include <utility>

#include "accelerate/error.h"
#include "accelerate/partial_state.h"
#include "base/message.h"
#include "base/str_cat.h"
#include "config/environment.h"

namespace accelerate {
namespace {

constexpr std::array<std::string_view, 5> kLevels = {
    "DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"};

constexpr std::string_view kChoices = "debug, info, warning, error, critical";

std::optional<LogLevel> find_level(std::string_view name) {
  std::string upper(name);
  std::transform(
      upper.begin(), upper.end(), upper.begin(), [](unsigned char c) {
        return static_cast<char>(std::toupper(c));
      });
  const auto found = std::find(kLevels.begin(), kLevels.end(), upper);
  return found == kLevels.end()
             ? std::nullopt
             : std::optional(static_cast<LogLevel>(found - kLevels.begin()));
}

std::optional<LogLevel> level_from_environment() {
  const auto text = Environment::of_this_process().get("ACCELERATE_LOG_LEVEL");
  if (!text) {
    return std::nullopt;
  }
  const auto level = find_level(*text);
  if (!level) {
    throw ConfigError(
        str_cat(
            "environment variable ACCELERATE_LOG_LEVEL is `",
            *text,
            "`, but must be one of ",
            kChoices),
        "set the variable to one of these values, or unset it");
  }
  return level;
}

}  // namespace

LogLevel parse_log_level(std::string_view name) {
  const auto level = find_level(name);
  if (!level) {
    throw ArgumentError(
        str_cat("the log level is `", name, "`, but must be one of ", kChoices),
        str_cat("pass one of ", kChoices));
  }
  return *level;
}

std::string_view name_of(LogLevel level) {
  return kLevels[static_cast<std::size_t>(level)];
}

Logger::Logger(std::string name, LogLevel level)
    : name_(std::move(name)), level_(level) {
}

void Logger::log(
    LogLevel level, const std::string& message, LogOptions options) const {
  if (!PartialState::is_initialized()) {
    throw StateError(
        str_cat(
            "logger `", name_, "` was used before a PartialState was created"),
        "create an Accelerator or a PartialState first");
  }
  if (!is_enabled_for(level)) {
    return;
  }
  const PartialState state;
  const std::string line = str_cat(
      name_of(level),
      " ",
      name_,
      ": [RANK ",
      state.process_index(),
      "] ",
      message);
  if (!options.in_order) {
    if (state.is_main_process() || !options.main_process_only) {
      print_line(line);
    }
    return;
  }
  for (std::int64_t turn = 0; turn < state.num_processes(); ++turn) {
    if (turn == state.process_index()) {
      print_line(line);
    }
    state.wait_for_everyone();
  }
}

void Logger::debug(const std::string& message, LogOptions options) const {
  log(LogLevel::debug, message, options);
}
void Logger::info(const std::string& message, LogOptions options) const {
  log(LogLevel::info, message, options);
}
void Logger::warning(const std::string& message, LogOptions options) const {
  log(LogLevel::warning, message, options);
}
void Logger::error(const std::string& message, LogOptions options) const {
  log(LogLevel::error, message, options);
}
void Logger::critical(const std::string& message, LogOptions options) const {
  log(LogLevel::critical, message, options);
}

void Logger::warning_once(
    const std::string& message, LogOptions options) const {
  static std::mutex mutex;
  static std::set<std::string> logged;
  {
    const std::lock_guard lock(mutex);
    if (!logged.insert(message).second) {
      return;
    }
  }
  warning(message, options);
}

Logger get_logger(std::string name, std::optional<LogLevel> level) {
  if (!level) {
    level = level_from_environment().value_or(LogLevel::warning);
  }
  return {std::move(name), *level};
}

}  // namespace accelerate
