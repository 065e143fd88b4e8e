// SPDX-License-Identifier: Apache-2.0
#include "tracking/dvclive_tracker.h"

#include <exception>
#include <functional>
#include <iostream>
#include <string_view>
#include <utility>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "config/environment.h"
#include "tracking/append_file.h"
#include "tracking/installed_version.h"
#include "tracking/run_files.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

constexpr char kDvcliveVersion[] = "3.49";
constexpr char kSummaryFile[] = "metrics.json";
constexpr char kParamsFile[] = "params.yaml";
// The name of the run to which the files belong.
constexpr char kRunFile[] = ".accelerate_run";
constexpr std::size_t kMaxSummaryBytes = std::size_t{1} << 28;
constexpr std::size_t kMaxDvcYamlBytes = std::size_t{1} << 24;

std::string run_in_dvclive_folder(const fs::path& folder) {
  return fs::exists(folder / kRunFile) ? read_file(folder / kRunFile, 1 << 20)
                                       : "";
}

// The files of the previous run are removed, so they must be DVCLive's.
void check_dvclive_folder(const fs::path& folder) {
  if (fs::exists(folder / kRunFile) ||
      (fs::exists(folder / kSummaryFile) && fs::exists(folder / "plots"))) {
    return;
  }
  for (const char* const name : {kSummaryFile, kParamsFile, "plots"}) {
    if (fs::exists(folder / name)) {
      throw ArgumentError(
          str_cat(
              "tracker `dvclive` would overwrite ",
              (folder / name).string(),
              ", which no tracker wrote"),
          "pass another folder as `dir` in `init_kwargs`");
    }
  }
}

fs::path dvc_yaml_option(const TrackerSetup& setup) {
  const Json* const option = setup.kwargs.find("dvcyaml");
  if (option != nullptr && option->is_bool() && !option->as_bool()) {
    return {};
  }
  const bool standard =
      option == nullptr || (option->is_bool() && option->as_bool());
  const fs::path path =
      standard ? "dvc.yaml"
               : text_kwarg(setup, DvcliveTracker::kName, "dvcyaml", "");
  if (!path.empty() && path.filename() != "dvc.yaml") {
    throw ArgumentError(
        str_cat(
            "option `dvcyaml` of tracker `dvclive` is `",
            printable(path.string()),
            "`, but DVC only reads files named `dvc.yaml`"),
        "pass a path that ends with `dvc.yaml`, or false");
  }
  return path.empty() ? path : fs::absolute(path);
}

// A path as DVC writes it in `dvc.yaml`.
std::string dvc_yaml_path(const fs::path& path, const fs::path& dvc_yaml) {
  const std::string text =
      path.lexically_relative(dvc_yaml.parent_path()).generic_string();
  const bool plain =
      !text.starts_with('-') &&
      text.find_first_not_of(
          "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./"
          "-") == std::string::npos;
  return plain ? text : Json(valid_utf8(text)).dump();
}

// Replaces each value of a summary with the last value in its key's table.
// Removes keys without a table.
Json summary_from_histories(
    const Json& summary,
    const std::string& prefix,
    const std::function<const Json*(const std::string&)>& last_value) {
  Json result = Json::object();
  for (const JsonMember& member : summary.as_object()) {
    const std::string key =
        prefix.empty() ? member.key : str_cat(prefix, "/", member.key);
    if (member.value.is_object()) {
      Json nested = summary_from_histories(member.value, key, last_value);
      if (nested.size() > 0) {
        result[member.key] = std::move(nested);
      }
    } else if (const Json* const value = last_value(key)) {
      result[member.key] = *value;
    }
  }
  return result;
}

}  // namespace

void DvcliveTracker::start(const TrackerSetup& setup) {
  check_kwargs(setup, kName, {"dir", "dvcyaml"});
  folder_ = fs::absolute(text_kwarg(setup, kName, "dir", "dvclive"))
                .lexically_normal();
  dvc_yaml_ = dvc_yaml_option(setup);
  run_ = setup.run;
  check_dvclive_folder(folder_);
  warn_about_other_version(
      kName, kDvcliveVersion, Environment::of_this_process());
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) {
    throw_errno("create", folder_, error.value());
  }
}

void DvcliveTracker::store_init_configuration(const Json& config) {
  config_ = config;
}

fs::path DvcliveTracker::metrics_folder() const {
  return folder_ / "plots" / "metrics";
}

fs::path DvcliveTracker::images_folder() const {
  return folder_ / "plots" / "images";
}

std::string DvcliveTracker::run() const {
  const std::scoped_lock lock(mutex_);
  return run_;
}

Json DvcliveTracker::state_dict() const {
  return Json::object({{"run", run()}});
}

void DvcliveTracker::begin() {
  if (begun_) {
    return;
  }
  for (const char* const kind : {"metrics", "images", "custom", "sklearn"}) {
    fs::remove_all(folder_ / "plots" / kind);
  }
  for (const char* const name :
       {kSummaryFile, kParamsFile, "report.html", "report.md"}) {
    fs::remove(folder_ / name);
  }
  write_file(folder_ / kRunFile, run());
  write_params();
  begun_ = true;
}

void DvcliveTracker::write_params() {
  if (config_) {
    write_file(folder_ / kParamsFile, dvc_yaml(*config_));
  }
}

void DvcliveTracker::resume(const Json& state, std::int64_t time_us) {
  const Json* const saved = state.find("run");
  if (saved == nullptr || !saved->is_string() ||
      saved->as_string() != run_in_dvclive_folder(folder_)) {
    return;  // The files belong to another run: this is a new run.
  }
  {
    const std::scoped_lock lock(mutex_);
    run_ = saved->as_string();
  }
  std::vector<fs::path> tables;
  std::error_code missing;
  for (const auto& entry :
       fs::recursive_directory_iterator(metrics_folder(), missing)) {
    if (entry.is_regular_file() && entry.path().extension() == ".tsv") {
      tables.push_back(entry.path());
    }
  }
  Histories histories;
  for (const fs::path& table : tables) {
    histories[table] = cut_dvc_history(table, time_us);
  }
  read_summary(histories);
  write_params();
  begun_ = true;
  changed_ = true;
}

void DvcliveTracker::read_summary(const Histories& histories) {
  const fs::path path = folder_ / kSummaryFile;
  const Json saved = fs::exists(path) ? Json::parse(
                                            read_file(path, kMaxSummaryBytes),
                                            {.source = path.string()})
                                      : Json::object();
  const auto last_value = [&](const std::string& key) -> const Json* {
    const auto found = histories.find(metrics_folder() / dvc_path(key, ".tsv"));
    return found == histories.end() || found->second.value.is_null()
               ? nullptr
               : &found->second.value;
  };
  DvcHistory last;
  for (const auto& [table, history] : histories) {
    last = history.time_us > last.time_us ? history : last;
  }
  summary_ = Json::object();
  if (last.time_us > 0) {
    summary_["step"] = last.step;
  }
  const Json values = summary_from_histories(saved, "", last_value);
  for (const JsonMember& member : values.as_object()) {
    if (member.key != "step") {
      summary_[member.key] = member.value;
    }
  }
}

void DvcliveTracker::log(const TrackedValues& values) {
  begin();
  summary_["step"] = values.step;
  changed_ = true;
  bool has_histogram = false;
  for (const TrackedEntry& entry : values.entries) {
    if (std::holds_alternative<Histogram>(entry.value)) {
      has_histogram = true;
      continue;
    }
    rows_[entry.key].push_back(
        dvc_row(values.time_us, values.step, entry.value));
    if (entry.key != "step") {
      set_dvc_summary(summary_, entry.key, dvc_summary_value(entry.value));
    }
  }
  if (has_histogram) {
    throw UnsupportedError("the tracker `dvclive` does not support histograms");
  }
}

// DVC shows images with such names in one folder as a sequence of steps.
void DvcliveTracker::log_images(const TrackedImages& images) {
  begin();
  summary_["step"] = images.step;
  changed_ = true;
  for (const TrackedImageEntry& entry : images.entries) {
    for (std::size_t i = 0; i < entry.images.size(); ++i) {
      const std::string key =
          entry.images.size() == 1 ? entry.key : str_cat(entry.key, "/", i);
      write_file(
          images_folder() / dvc_path(str_cat(key, "/", images.step), ".png"),
          entry.images[i].png);
    }
  }
}

void DvcliveTracker::write_histories() {
  std::exception_ptr failure;
  for (const auto& [key, rows] : std::exchange(rows_, {})) {
    try {
      AppendFile file(metrics_folder() / dvc_path(key, ".tsv"));
      std::string header = file.size() == 0 ? dvc_header(key) : "";
      for (const std::string& row : rows) {
        file.append(std::exchange(header, "") + row);
      }
      file.flush();
    } catch (const std::exception&) {
      failure = failure ? failure : std::current_exception();
    }
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
}

void DvcliveTracker::write_summary() {
  write_file(
      folder_ / kSummaryFile,
      summary_.dump({.indent = 4, .ensure_ascii = true}) + "\n");
}

std::string DvcliveTracker::dvc_yaml_text(
    bool params, bool tables, bool images) const {
  const auto path_of = [this](const fs::path& path) {
    return dvc_yaml_path(path, dvc_yaml_);
  };
  std::string text;
  if (params) {
    text += str_cat("params:\n- ", path_of(folder_ / kParamsFile), "\n");
  }
  text += str_cat("metrics:\n- ", path_of(folder_ / kSummaryFile), "\n");
  text += tables || images ? "plots:\n" : "";
  if (tables) {
    text += str_cat("- ", path_of(metrics_folder()), ":\n    x: step\n");
  }
  if (images) {
    text += str_cat("- ", path_of(images_folder()), "\n");
  }
  return text;
}

bool DvcliveTracker::is_own_dvc_yaml(const std::string& text) const {
  for (unsigned kinds = 0; kinds < 8; ++kinds) {
    if (text ==
        dvc_yaml_text((kinds & 1) != 0, (kinds & 2) != 0, (kinds & 4) != 0)) {
      return true;
    }
  }
  return false;
}

// A file that also describes other things, such as a pipeline, is not changed.
void DvcliveTracker::write_dvc_yaml() {
  if (dvc_yaml_.empty()) {
    return;
  }
  const std::string text = dvc_yaml_text(
      fs::exists(folder_ / kParamsFile),
      fs::exists(metrics_folder()),
      fs::exists(images_folder()));
  if (text == std::exchange(described_, text)) {
    return;
  }
  const std::string before =
      fs::exists(dvc_yaml_) ? read_file(dvc_yaml_, kMaxDvcYamlBytes) : "";
  if (before.empty() || is_own_dvc_yaml(before)) {
    write_file(dvc_yaml_, text);
  } else if (
      before.find(dvc_yaml_path(folder_ / kSummaryFile, dvc_yaml_)) ==
          std::string::npos &&
      !std::exchange(warned_, true)) {
    std::cerr << str_cat(
                     "warning: tracker `dvclive` does not change ",
                     printable(dvc_yaml_.string()),
                     ", because the file has other content; add these lines to "
                     "it, or pass another path as `dvcyaml` in "
                     "`init_kwargs`:\n",
                     printable_lines(text))
              << std::flush;
  }
}

void DvcliveTracker::flush() {
  if (!std::exchange(changed_, false)) {
    return;
  }
  write_histories();
  write_summary();
  write_dvc_yaml();
}

void DvcliveTracker::finish() {
  if (config_) {
    begin();
    changed_ = true;
  }
  flush();
}

}  // namespace accelerate
