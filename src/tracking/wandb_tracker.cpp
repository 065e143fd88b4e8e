// SPDX-License-Identifier: Apache-2.0
#include "tracking/wandb_tracker.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <iostream>
#include <utility>

#include "accelerate/error.h"
#include "base/mapped_file.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "tracking/installed_version.h"
#include "tracking/leveldb_log.h"
#include "tracking/run_files.h"
#include "tracking/wandb_media.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

constexpr char kSupportedWandb[] = "0.31";
constexpr std::string_view kRunPrefix = "offline-run-";
constexpr std::size_t kRunTimeBytes = 16;  // `20261119_041517-`
constexpr std::array kOwnKeys{"_timestamp", "_runtime", "_wandb"};

// The id at the end of the name of a run's folder; empty if the folder has
// another name.
std::string id_in(const std::string& run) {
  const std::size_t begin = kRunPrefix.size() + kRunTimeBytes;
  return run.starts_with(kRunPrefix) && run.size() > begin ? run.substr(begin)
                                                           : "";
}

fs::path run_file_in(const fs::path& folder) {
  const std::string id = id_in(folder.filename().string());
  return folder / str_cat("run-", id, ".wandb");
}

std::string local_time_text(std::int64_t time_us) {
  const auto seconds = static_cast<std::time_t>(time_us / 1000000);
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y%m%d_%H%M%S", &parts);
  return text;
}

void check_wandb_key(const std::string& key) {
  if (std::ranges::find(kOwnKeys, key) != kOwnKeys.end()) {
    throw ArgumentError(
        str_cat("W&B itself uses the name `", key, "`"),
        "choose another name for this value");
  }
}

}  // namespace

void WandbTracker::start(const TrackerSetup& setup) {
  const Environment environment = Environment::of_this_process();
  options_ = wandb_options(setup, environment);
  if (!options_.disabled) {
    warn_about_other_version(kName, kSupportedWandb, environment);
    FileTracker::start(setup);
  }
}

void WandbTracker::store_init_configuration(const Json& config) {
  if (!options_.disabled) {
    FileTracker::store_init_configuration(config);
  }
}

void WandbTracker::resume(const Json& state, std::int64_t time_us) {
  if (!options_.disabled) {
    FileTracker::resume(state, time_us);
  }
}

std::string WandbTracker::first_run() const {
  for (std::int64_t time_us = now_us();; time_us += 1000000) {
    const std::string run =
        str_cat(kRunPrefix, local_time_text(time_us), "-", options_.id);
    if (!fs::exists(folder_of(run))) {
      return run;
    }
  }
}

fs::path WandbTracker::folder_of(const std::string& run) const {
  const bool is_name =
      !id_in(run).empty() && run.find('/') == std::string::npos;
  return is_name ? options_.folder / run : fs::path();
}

void WandbTracker::open(const fs::path& folder, std::int64_t keep_until_us) {
  options_.id = id_in(folder.filename().string());
  const fs::path path = run_file_in(folder);
  file_ = AppendFile(path);
  WandbPosition kept;
  if (file_.size() > 0) {
    const MappedFile content(path, MappedFile::Mode::read_only);
    kept = wandb_position(content.text(), keep_until_us);
  }
  file_.truncate(kept.end);
  records_ = kept.records;
  runtime_us_ = static_cast<std::int64_t>(kept.runtime * 1e6);
  started_us_ = now_us() - runtime_us_;
  row_ = std::move(kept.row);
  row_changed_ = false;
  row_written_ = row_.has_value();
  row_begin_ = kept.row_begin;
  row_records_ = kept.row_records;
  first_step_ = kept.first_step;
  if (kept.end == 0) {
    begin_file();
    fs::create_directories(folder / "files");
  }
  file_.flush();
}

void WandbTracker::begin_file() {
  WandbRow summary;
  if (uploaded_) {
    first_step_ = uploaded_->last_step ? *uploaded_->last_step + 1
                                       : uploaded_->first_step;
    runtime_us_ = static_cast<std::int64_t>(uploaded_->runtime * 1e6);
    started_us_ -= runtime_us_;
    summary.items = std::move(uploaded_->summary);
    uploaded_.reset();
  }
  file_.append(wandb_file_header());
  write_records(
      {wandb_record(1, kWandbHeader, wandb_header_content()),
       wandb_record(
           2,
           kWandbRun,
           wandb_run_content(options_, started_us_, first_step_))});
  if (!summary.items.empty()) {
    write_records({wandb_record(3, kWandbSummary, summary.encoded())});
  }
}

std::string WandbTracker::continued_run(const std::string& saved) {
  const fs::path path = run_file_in(folder_of(saved));
  if (!fs::exists(path.string() + ".synced") &&
      !fs::exists(path.string() + ".syncstate")) {
    return saved;
  }
  const MappedFile content(path, MappedFile::Mode::read_only);
  uploaded_ = wandb_position(content.text(), INT64_MAX);
  options_.id = id_in(saved);
  return first_run();
}

bool WandbTracker::skips(std::int64_t step) const {
  return options_.disabled || (first_step_ && step < *first_step_);
}

void WandbTracker::discard() {
  file_ = {};
  fs::remove_all(folder());
}

void WandbTracker::write_config(const Json& config) {
  // The row stays the last entry of the file.
  take_row_back();
  write_records(
      {wandb_record(records_ + 1, kWandbConfig, wandb_config_content(config))});
  flush();
}

void WandbTracker::write_records(const std::vector<std::string>& records) {
  std::string framed;
  for (const std::string& record : records) {
    framed += framed_log_record(record, file_.end() + framed.size());
  }
  records_ += static_cast<std::int64_t>(records.size());
  file_.append(framed);
}

double WandbTracker::runtime_at(std::int64_t time_us) {
  // The call may have been made before the file was opened.
  started_us_ = std::min(started_us_, time_us - runtime_us_);
  return static_cast<double>(time_us - started_us_) / 1e6;
}

WandbRow& WandbTracker::row_of(std::int64_t step, std::int64_t time_us) {
  announce();
  if (row_ && row_->step != step) {
    write_row();
    row_.reset();
  }
  if (!row_) {
    row_.emplace();
    row_->step = step;
    row_->set("_step", step);
    row_->set("_timestamp", static_cast<double>(time_us) / 1e6);
    row_->set("_runtime", runtime_at(time_us));
    row_written_ = false;
  }
  row_changed_ = true;
  return *row_;
}

void WandbTracker::take_row_back() {
  if (!row_) {
    return;
  }
  if (row_written_) {
    // After a failed write, the file may already end before the row.
    if (row_begin_ < file_.size()) {
      file_.truncate(row_begin_);
    }
    records_ = row_records_;
  }
  row_written_ = false;
  row_changed_ = true;
}

void WandbTracker::write_row() {
  if (!row_ || !row_changed_) {
    return;
  }
  take_row_back();
  row_begin_ = file_.end();
  row_records_ = records_;
  row_written_ = true;
  row_changed_ = false;
  write_records(row_->records(records_ + 1));
}

void WandbTracker::flush() {
  write_row();
  file_.flush();
}

void WandbTracker::finish() {
  if (options_.disabled) {
    return;
  }
  announce();
  write_row();
  const auto runtime = static_cast<std::int64_t>(runtime_at(now_us()));
  WandbRow summary;
  summary.set("_wandb", Json::object({{"runtime", runtime}}));
  write_records(
      {wandb_record(records_ + 1, kWandbSummary, summary.encoded()),
       wandb_record(records_ + 2, kWandbExit, wandb_exit_content(runtime))});
  file_.flush();
}

void WandbTracker::announce() {
  if (!std::exchange(announced_, true)) {
    const std::string path = folder().string();
    std::cerr << str_cat(
                     "note: tracker `",
                     kName,
                     "` writes an offline run; to upload it, run `wandb sync ",
                     printable(shell_quote(path)),
                     "`\n")
              << std::flush;
  }
}

void WandbTracker::log(const TrackedValues& values) {
  if (skips(values.step)) {
    return;
  }
  for (const TrackedEntry& entry : values.entries) {
    check_wandb_key(entry.key);
  }
  WandbRow& row = row_of(values.step, values.time_us);
  for (const TrackedEntry& entry : values.entries) {
    row.set(entry.key, wandb_value(entry.value));
  }
}

void WandbTracker::log_images(const TrackedImages& images) {
  if (skips(images.step)) {
    return;
  }
  for (const TrackedImageEntry& entry : images.entries) {
    check_wandb_key(entry.key);
  }
  WandbRow& row = row_of(images.step, images.time_us);
  for (const TrackedImageEntry& entry : images.entries) {
    if (!entry.images.empty()) {
      row.set(entry.key, write_wandb_images(folder() / "files", row, entry));
    }
  }
}

void WandbTracker::log_table(const TrackedTable& table) {
  if (skips(table.step)) {
    return;
  }
  check_wandb_key(table.key);
  WandbRow& row = row_of(table.step, table.time_us);
  row.set(table.key, write_wandb_table(folder() / "files", row, table));
}

}  // namespace accelerate
