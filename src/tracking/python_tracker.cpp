// SPDX-License-Identifier: Apache-2.0
#include "tracking/python_tracker.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "tracking/installed_version.h"
#include "tracking/run_files.h"

namespace accelerate {
namespace {

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned group = 0;
    for (std::size_t k = i; k < i + 3; ++k) {
      group = group << 8U |
              (k < bytes.size() ? static_cast<unsigned char>(bytes[k]) : 0U);
    }
    for (const unsigned shift : {18U, 12U, 6U, 0U}) {
      text += kDigits[group >> shift & 63U];
    }
  }
  const std::size_t padding = (3 - bytes.size() % 3) % 3;
  text.replace(text.size() - padding, padding, padding, '=');
  return text;
}

Json json_value(const TrackedValue& value) {
  return std::visit(
      [](const auto& content) -> Json {
        using Content = std::decay_t<decltype(content)>;
        if constexpr (std::is_same_v<Content, Histogram>) {
          return Json::object(
              {{"min", content.min},
               {"max", content.max},
               {"limits", content.limits},
               {"counts", content.counts}});
        } else {
          return Json(content);
        }
      },
      value);
}

std::string text_member(const Json& answer, std::string_view key) {
  const Json* const value = answer.find(key);
  return value != nullptr && value->is_string() ? value->as_string() : "";
}

bool is_python_name(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
  return !text.empty() && kLetters.find(text.front()) != text.npos &&
         std::ranges::all_of(text, [&](char c) {
           return kLetters.find(c) != kLetters.npos ||
                  kDigits.find(c) != kDigits.npos;
         });
}

}  // namespace

const std::vector<std::string>& python_service_names() {
  static const std::vector<std::string> names{
      "aim", "clearml", "comet_ml", "swanlab"};
  return names;
}

bool names_python_class(const std::string& name) {
  const auto colon = name.find(':');
  if (colon == std::string::npos || !is_python_name(name.substr(colon + 1))) {
    return false;
  }
  return std::ranges::all_of(split(name.substr(0, colon), '.'), is_python_name);
}

PythonTracker::PythonTracker(std::string name, PythonTrackerLimits limits)
    : name_(std::move(name)), limits_(limits) {
}

bool PythonTracker::requires_logging_directory() const {
  return name_ == "aim";
}

void PythonTracker::start(const TrackerSetup& setup) {
  const Environment environment = Environment::of_this_process();
  const auto python = python_on_path(environment);
  if (!python) {
    throw UnsupportedError(
        str_cat(
            "tracker `",
            name_,
            "` needs Python, but there is no `python3` on PATH"),
        "install Python, or add the folder of `python3` to PATH");
  }
  process_ = std::make_unique<TrackerProcess>(
      *python, name_, environment, limits_.start);
  const std::string folder =
      setup.logging_dir.empty()
          ? ""
          : std::filesystem::absolute(setup.logging_dir).string();
  call(
      Json::object(
          {{"call", "start"},
           {"project", valid_utf8(setup.project)},
           {"logging_dir", valid_utf8(folder)},
           {"kwargs", setup.kwargs}}),
      limits_.start);
}

void PythonTracker::store_init_configuration(const Json& config) {
  call(Json::object({{"call", "config"}, {"config", config}}), limits_.call);
}

void PythonTracker::log(const TrackedValues& values) {
  Json entries = Json::object();
  for (const TrackedEntry& entry : values.entries) {
    entries[entry.key] = json_value(entry.value);
  }
  const Json* const kwargs = values.kwargs.find(name_);
  call(
      Json::object(
          {{"call", "log"},
           {"step", values.step},
           {"values", std::move(entries)},
           {"kwargs", kwargs != nullptr ? *kwargs : Json()}}),
      limits_.call);
}

void PythonTracker::log_images(const TrackedImages& images) {
  Json entries = Json::object();
  for (const TrackedImageEntry& entry : images.entries) {
    Json files = Json::array();
    for (const EncodedImage& image : entry.images) {
      files.push_back(base64(image.png));
    }
    entries[entry.key] = std::move(files);
  }
  call(
      Json::object(
          {{"call", "log_images"},
           {"step", images.step},
           {"images", std::move(entries)}}),
      limits_.call);
}

void PythonTracker::log_table(const TrackedTable& table) {
  Json rows = Json::array();
  for (const auto& row : table.rows) {
    rows.push_back(Json(row));
  }
  call(
      Json::object(
          {{"call", "log_table"},
           {"step", table.step},
           {"key", table.key},
           {"columns", table.columns},
           {"rows", std::move(rows)}}),
      limits_.call);
}

void PythonTracker::finish() {
  call(Json::object({{"call", "finish"}}), limits_.finish);
  process_->wait(limits_.finish);
}

std::chrono::milliseconds PythonTracker::finish_timeout() const {
  return limits_.finish;
}

void PythonTracker::call(
    const Json& request, std::chrono::milliseconds timeout) {
  const Json answer = process_->call(request, timeout);
  if (!answer.contains("error")) {
    return;
  }
  const std::string error = text_member(answer, "error");
  const std::string hint = text_member(answer, "hint");
  const std::string kind = text_member(answer, "kind");
  if (kind == "UnsupportedError") {
    throw UnsupportedError(error, hint);
  }
  if (kind == "ArgumentError") {
    throw ArgumentError(error, hint);
  }
  throw IoError(error, hint);
}

}  // namespace accelerate
