// SPDX-License-Identifier: Apache-2.0
#include "tracking/trackio_tracker.h"

#include <algorithm>
#include <array>
#include <iostream>
#include <string_view>
#include <type_traits>
#include <utility>

#include "accelerate/error.h"
#include "base/file_lock.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "tracking/flatten.h"
#include "tracking/installed_version.h"
#include "tracking/run_files.h"
#include "tracking/trackio_store.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

constexpr char kTrackioVersion[] = "0.43";

void print_trackio_warning(const std::string& text) {
  std::cerr << str_cat("warning: tracker `trackio`: ", printable(text), "\n")
            << std::flush;
}

void warn_about_remote_settings(const Environment& environment) {
  for (const char* const name : {"TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL"}) {
    if (environment.has(name)) {
      print_trackio_warning(str_cat(
          name,
          " is set, but values are only written to this machine; send them "
          "with `trackio sync`"));
    }
  }
}

void check_storage_mode(const Environment& environment) {
  if (environment.get("TRACKIO_STORAGE_MODE") == "jsonl") {
    throw UnsupportedError(
        "tracker `trackio` only writes databases, but TRACKIO_STORAGE_MODE is "
        "`jsonl`",
        "unset TRACKIO_STORAGE_MODE, or set TRACKIO_DIR to a local folder");
  }
}

// Trackio's variable for file systems on which its default does not work.
std::string journal_mode(const Environment& environment) {
  constexpr std::array kModes{
      "wal", "delete", "truncate", "persist", "memory", "off"};
  const std::string mode =
      lower(environment.get("TRACKIO_SQLITE_JOURNAL_MODE").value_or("wal"));
  return std::ranges::find(kModes, mode) != kModes.end() ? mode : "wal";
}

// Trackio uses these keys itself, and renames them in the same way.
std::string trackio_key(const std::string& key) {
  constexpr std::array kReserved{
      "project", "run", "timestamp", "step", "time", "metrics"};
  const bool reserved = key.starts_with("__") ||
                        std::ranges::find(kReserved, key) != kReserved.end();
  return reserved ? "__" + key : key;
}

Json trackio_histogram(const Histogram& histogram) {
  Json bins = Json::array({json_number(histogram.min)});
  for (const double limit : histogram.limits) {
    bins.push_back(json_number(limit));
  }
  Json counts = Json::array();
  for (const double count : histogram.counts) {
    counts.push_back(json_number(count));
  }
  return Json::object(
      {{"_type", "trackio.histogram"},
       {"bins", std::move(bins)},
       {"values", std::move(counts)}});
}

Json trackio_value(const TrackedValue& value) {
  return std::visit(
      [](const auto& content) -> Json {
        using Content = std::decay_t<decltype(content)>;
        if constexpr (std::is_same_v<Content, double>) {
          return json_number(content);
        } else if constexpr (std::is_same_v<Content, Histogram>) {
          return trackio_histogram(content);
        } else {
          return Json(content);
        }
      },
      value);
}

// Removes the files of the images in a row, if they are in `media`.
void remove_trackio_images(const std::string& metrics, const fs::path& media) {
  const Json row = Json::parse(metrics, {.source = "a row of Trackio"});
  for (const JsonMember& member : row.as_object()) {
    const Json* const type = member.value.find("_type");
    const Json* const file = member.value.find("file_path");
    if (type == nullptr || *type != Json("trackio.image") || file == nullptr ||
        !file->is_string()) {
      continue;
    }
    const fs::path path = fs::path(file->as_string()).lexically_normal();
    std::error_code ignored;
    if (path.is_relative() && *path.begin() == media.filename()) {
      fs::remove(media.parent_path() / path, ignored);
    }
  }
}

}  // namespace

TrackioTracker::TrackioTracker(
    Environment environment, std::chrono::milliseconds timeout)
    : environment_(std::move(environment)), timeout_(timeout) {
}

void TrackioTracker::start(const TrackerSetup& setup) {
  check_kwargs(setup, kName, {"name", "group"});
  check_storage_mode(environment_);
  require_sqlite();
  project_ = trackio_project(setup.project);
  if (project_ != setup.project) {
    print_trackio_warning(str_cat(
        "the project `",
        setup.project,
        "` is stored as `",
        project_,
        "`, together with every other project that has the same letters and "
        "digits"));
  }
  warn_about_remote_settings(environment_);
  warn_about_other_version(kName, kTrackioVersion, environment_);
  folder_ = fs::absolute(trackio_folder(environment_));
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) {
    throw_errno("create", folder_, error.value());
  }
  journal_ = journal_mode(environment_);
  group_ = text_kwarg(setup, kName, "group", "");
  run_ = {
      random_uuid(), valid_utf8(text_kwarg(setup, kName, "name", setup.run))};
}

void TrackioTracker::store_init_configuration(const Json& config) {
  config_ = writable_json(
      config.is_object() ? config : Json::object({{"config", config}}));
}

TrackioTracker::Run TrackioTracker::run() const {
  const std::scoped_lock lock(mutex_);
  return run_;
}

fs::path TrackioTracker::file(const char* extension) const {
  return folder_ / (project_ + extension);
}

Json TrackioTracker::state_dict() const {
  const Run current = run();
  return Json::object({{"run_id", current.id}, {"name", current.name}});
}

void TrackioTracker::resume(const Json& state, std::int64_t time_us) {
  const Json* const id = state.find("run_id");
  const Json* const name = state.find("name");
  if (id == nullptr || !id->is_string() || name == nullptr ||
      !name->is_string()) {
    return;
  }
  // `flush` deletes the old rows in the transaction that writes new ones, so
  // that no reader sees a run that has neither.
  delete_after_us_ = time_us;
  const std::scoped_lock lock(mutex_);
  run_ = {id->as_string(), name->as_string()};
}

void TrackioTracker::add_row(
    std::int64_t step, std::int64_t time_us, const Json& metrics) {
  rows_.push_back({step, time_us, metrics.dump()});
}

void TrackioTracker::log(const TrackedValues& values) {
  Json metrics = Json::object();
  for (const TrackedEntry& entry : values.entries) {
    metrics[trackio_key(entry.key)] = trackio_value(entry.value);
  }
  add_row(values.step, values.time_us, metrics);
}

Json TrackioTracker::image_entry(std::int64_t step, const EncodedImage& image) {
  const Run current = run();
  // Trackio's server decodes a path twice, so the path must not contain `%`.
  const bool safe = file_name_of(current.name) == current.name;
  const fs::path path = fs::path(project_) /
                        (safe ? current.name : current.id) /
                        std::to_string(step) / (random_uuid() + ".png");
  write_file(folder_ / "media" / path, image.png);
  return Json::object(
      {{"_type", "trackio.image"},
       {"file_path", path.string()},
       {"caption", nullptr}});
}

// Trackio stores one image per key, so several images get numbered keys.
void TrackioTracker::log_images(const TrackedImages& images) {
  Json metrics = Json::object();
  for (const TrackedImageEntry& entry : images.entries) {
    for (std::size_t i = 0; i < entry.images.size(); ++i) {
      const std::string key = trackio_key(entry.key);
      metrics[entry.images.size() == 1 ? key : str_cat(key, "/", i)] =
          image_entry(images.step, entry.images[i]);
    }
  }
  add_row(images.step, images.time_us, metrics);
}

void TrackioTracker::log_table(const TrackedTable& table) {
  Json rows = Json::array();
  for (const auto& row : table.rows) {
    Json cells = Json::object();
    for (std::size_t i = 0; i < table.columns.size(); ++i) {
      cells[table.columns[i]] = writable_json(row[i]);
    }
    rows.push_back(std::move(cells));
  }
  const Json value =
      Json::object({{"_type", "trackio.table"}, {"_value", std::move(rows)}});
  add_row(
      table.step,
      table.time_us,
      Json::object({{trackio_key(table.key), value}}));
}

// A run without values is only written at its end, because `resume` may still
// continue another run instead.
void TrackioTracker::flush() {
  if (!rows_.empty() || (delete_after_us_ && fs::exists(file(".db")))) {
    // What cannot be written is lost; the run must not need ever more memory.
    write(std::exchange(rows_, {}));
  }
}

void TrackioTracker::finish() {
  flush();
  if (!config_written_ && config_.size() > 0) {
    write({});
  }
}

void TrackioTracker::write(const std::vector<Row>& rows) {
  const FileLock lock(file(".lock"), timeout_);
  SqliteDatabase database(file(".db"), timeout_);
  // A killed process loses nothing in this mode, and a reader does not block.
  database.execute(
      str_cat("PRAGMA journal_mode = ", journal_, "; PRAGMA synchronous = 1"));
  database.execute("BEGIN IMMEDIATE");
  const bool newer = prepare_trackio_tables(database);
  const std::vector<std::string> deleted = delete_later_rows(database);
  insert(database, rows);
  write_config(database);
  database.execute("COMMIT");
  delete_after_us_.reset();
  config_written_ = true;
  for (const std::string& metrics : deleted) {
    remove_trackio_images(metrics, folder_ / "media" / project_);
  }
  warn_if_newer(newer);
}

void TrackioTracker::warn_if_newer(bool newer) {
  if (newer && !std::exchange(warned_, true)) {
    print_trackio_warning(str_cat(
        "the project `",
        project_,
        "` was created by a newer Trackio than ",
        kTrackioVersion,
        "; its tables have the columns that are needed, so values are written, "
        "but Trackio may not show all of them"));
  }
}

void TrackioTracker::insert(
    SqliteDatabase& database, const std::vector<Row>& rows) {
  const Run current = run();
  SqliteStatement statement(
      database,
      "INSERT INTO metrics (timestamp, run_id, run_name, step, metrics) "
      "VALUES (?, ?, ?, ?, ?)");
  for (const Row& row : rows) {
    statement.bind(0, trackio_time(row.time_us));
    statement.bind(1, current.id);
    statement.bind(2, current.name);
    statement.bind(3, row.step);
    statement.bind(4, row.metrics);
    statement.run();
  }
}

std::vector<std::string> TrackioTracker::delete_later_rows(
    SqliteDatabase& database) {
  std::vector<std::string> deleted;
  if (!delete_after_us_) {
    return deleted;
  }
  const std::string id = run().id;
  const std::string time = trackio_time(*delete_after_us_);
  SqliteStatement rows(
      database,
      "SELECT metrics FROM metrics WHERE run_id = ? AND timestamp > ?");
  rows.bind(0, id);
  rows.bind(1, time);
  while (rows.step()) {
    deleted.push_back(rows.text(0));
  }
  SqliteStatement remove(
      database, "DELETE FROM metrics WHERE run_id = ? AND timestamp > ?");
  remove.bind(0, id);
  remove.bind(1, time);
  remove.run();
  return deleted;
}

void TrackioTracker::write_config(SqliteDatabase& database) {
  if (config_written_) {
    return;
  }
  const Run current = run();
  const std::string now = trackio_time(now_us());
  std::string created;
  {
    SqliteStatement saved(
        database, "SELECT created_at FROM configs WHERE run_id = ?");
    saved.bind(0, current.id);
    created = saved.step() ? saved.text(0) : now;
  }
  Json config = config_;
  config["_Username"] = nullptr;
  config["_Created"] = created;
  config["_Group"] = group_.empty() ? Json() : Json(group_);
  SqliteStatement insert(
      database,
      "INSERT OR REPLACE INTO configs (run_id, run_name, config, created_at) "
      "VALUES (?, ?, ?, ?)");
  insert.bind(0, current.id);
  insert.bind(1, current.name);
  insert.bind(2, config.dump());
  insert.bind(3, created);
  insert.run();
}

}  // namespace accelerate
