// SPDX-License-Identifier: Apache-2.0
#include "tracking/json_lines_tracker.h"

#include <cmath>
#include <fstream>
#include <type_traits>
#include <utility>

#include "accelerate/error.h"
#include "tracking/flatten.h"
#include "tracking/run_files.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

Json json_numbers(const std::vector<double>& values) {
  Json numbers = Json::array();
  for (const double value : values) {
    numbers.push_back(json_number(value));
  }
  return numbers;
}

Json json_value(const TrackedValue& value) {
  return std::visit(
      [](const auto& content) -> Json {
        using Content = std::decay_t<decltype(content)>;
        if constexpr (std::is_same_v<Content, double>) {
          return json_number(content);
        } else if constexpr (std::is_same_v<Content, std::string>) {
          return Json(content);
        } else if constexpr (std::is_same_v<Content, Histogram>) {
          return Json::object(
              {{"min", json_number(content.min)},
               {"max", json_number(content.max)},
               {"limits", json_numbers(content.limits)},
               {"counts", json_numbers(content.counts)}});
        } else {
          return Json(content);
        }
      },
      value);
}

double seconds(std::int64_t time_us) {
  return static_cast<double>(time_us) / 1e6;
}

Json line_of_type(const char* type, std::int64_t step, std::int64_t time_us) {
  return Json::object(
      {{"_type", type}, {"_step", step}, {"_time", seconds(time_us)}});
}

// The number of bytes of complete lines that are not newer than
// `keep_until_us`.
std::uint64_t bytes_to_keep(const fs::path& path, std::int64_t keep_until_us) {
  std::ifstream file(path, std::ios::binary);
  std::uint64_t kept = 0;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    if (keep_until_us != INT64_MAX) {
      const Json entry = Json::parse(line, {.source = path.string()});
      const Json* const time = entry.find("_time");
      if (time != nullptr &&
          std::llround(time->as_double() * 1e6) > keep_until_us) {
        break;
      }
    }
    kept += line.size() + 1;
  }
  return kept;
}

}  // namespace

void JsonLinesTracker::open(
    const fs::path& folder, std::int64_t keep_until_us) {
  file_ = AppendFile(folder / kFile);
  file_.truncate(bytes_to_keep(file_.path(), keep_until_us));
  size_before_ = file_.size();
  write(Json::object(
      {{"_type", "run"},
       {"_time", seconds(opened_us())},
       {"format", 1},
       {"project", setup().project},
       {"run", folder.filename().string()}}));
  file_.flush();
}

void JsonLinesTracker::discard() {
  remove_from(file_, size_before_);
}

void JsonLinesTracker::write(const Json& line) {
  file_.append(line.dump() + "\n");
}

void JsonLinesTracker::write_config(const Json& config) {
  write(Json::object(
      {{"_type", "config"},
       {"_time", seconds(opened_us())},
       {"config", writable_json(config)}}));
}

void JsonLinesTracker::log(const TrackedValues& values) {
  Json line = Json::object(
      {{"_step", values.step}, {"_time", seconds(values.time_us)}});
  for (const TrackedEntry& entry : values.entries) {
    line[entry.key] = json_value(entry.value);
  }
  write(line);
}

void JsonLinesTracker::log_images(const TrackedImages& images) {
  for (const TrackedImageEntry& entry : images.entries) {
    Json line = line_of_type("images", images.step, images.time_us);
    line["key"] = entry.key;
    line["files"] = Json(write_image_files(folder(), images.step, entry));
    write(line);
  }
}

void JsonLinesTracker::log_table(const TrackedTable& table) {
  Json line = line_of_type("table", table.step, table.time_us);
  line["key"] = table.key;
  line["columns"] = writable_json(Json(table.columns));
  Json rows = Json::array();
  for (const auto& row : table.rows) {
    rows.push_back(writable_json(Json(row)));
  }
  line["rows"] = std::move(rows);
  write(line);
}

}  // namespace accelerate
