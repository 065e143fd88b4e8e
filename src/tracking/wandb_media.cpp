// SPDX-License-Identifier: Apache-2.0
#include "tracking/wandb_media.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/files.h"
#include "base/hmac.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

// Changes and shortens the key. A file's name also contains a checksum of its
// content, so different files still have different names.
std::string media_name_of(const std::string& key) {
  std::string name = key.substr(0, 100);
  for (char& c : name) {
    const bool safe = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                      (c >= '0' && c <= '9') || c == '-' || c == '_';
    c = safe ? c : '_';
  }
  return name;
}

Json histogram_json(const Histogram& histogram) {
  Json bins = Json::array({histogram.min});
  for (const double limit : histogram.limits) {
    bins.push_back(limit);
  }
  return Json::object(
      {{"_type", "histogram"},
       {"values", Json(histogram.counts)},
       {"bins", std::move(bins)}});
}

// Writes a file of the row, and returns what W&B stores about it.
Json write_media(
    const fs::path& folder,
    WandbRow& row,
    const std::string& kind,
    const std::string& key,
    const std::string& suffix,
    std::string_view content) {
  const std::string digest = sha256_hex(content);
  const std::string path = str_cat(
      "media/",
      kind,
      "/",
      media_name_of(key),
      "_",
      row.step,
      "_",
      digest.substr(0, 20),
      suffix);
  write_file(folder / path, content);
  if (std::ranges::find(row.files, path) == row.files.end()) {
    row.files.push_back(path);
  }
  return Json::object(
      {{"path", path}, {"sha256", digest}, {"size", content.size()}});
}

}  // namespace

Json wandb_value(const TrackedValue& value) {
  return std::visit(
      [](const auto& content) -> Json {
        using Content = std::decay_t<decltype(content)>;
        if constexpr (std::is_same_v<Content, Histogram>) {
          return histogram_json(content);
        } else {
          return Json(content);
        }
      },
      value);
}

Json write_wandb_images(
    const fs::path& folder, WandbRow& row, const TrackedImageEntry& entry) {
  Json paths = Json::array();
  Json file;
  for (const EncodedImage& image : entry.images) {
    file = write_media(folder, row, "images", entry.key, ".png", image.png);
    paths.push_back(file.at("path"));
  }
  Json value = Json::object(
      {{"_type", "image-file"},
       {"format", "png"},
       {"width", entry.images.front().width},
       {"height", entry.images.front().height}});
  if (entry.images.size() > 1) {
    value["_type"] = "images/separated";
    value["count"] = entry.images.size();
    value["filenames"] = std::move(paths);
    return value;
  }
  for (const JsonMember& member : file.as_object()) {
    value[member.key] = member.value;
  }
  return value;
}

Json write_wandb_table(
    const fs::path& folder, WandbRow& row, const TrackedTable& table) {
  Json rows = Json::array();
  for (const auto& cells : table.rows) {
    rows.push_back(Json(cells));
  }
  const Json content = Json::object(
      {{"columns", Json(table.columns)}, {"data", std::move(rows)}});
  Json value = write_media(
      folder,
      row,
      "table",
      table.key,
      ".table.json",
      content.dump({.allow_nan = true}));
  value["_type"] = "table-file";
  value["ncols"] = table.columns.size();
  value["nrows"] = table.rows.size();
  value["log_mode"] = "IMMUTABLE";
  return value;
}

}  // namespace accelerate
