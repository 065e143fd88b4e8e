// SPDX-License-Identifier: Apache-2.0
#include "tracking/file_tracker.h"

#include <cstdint>
#include <cstdio>

#include "base/files.h"
#include "base/str_cat.h"
#include "tracking/run_files.h"

namespace accelerate {

namespace fs = std::filesystem;

void FileTracker::start(const TrackerSetup& setup) {
  std::vector<std::string> known = more_kwargs();
  known.insert(known.begin(), "name");
  check_kwargs(setup, name(), known);
  setup_ = setup;
  run_ = first_run();
  opened_us_ = now_us();
  open(folder(), INT64_MAX);
}

std::string FileTracker::first_run() const {
  return text_kwarg(setup_, name(), "name", setup_.run);
}

fs::path FileTracker::folder_of(const std::string& run) const {
  return run_folder(setup_, run);
}

void FileTracker::store_init_configuration(const Json& config) {
  config_ = config;
  write_config(config);
}

std::string FileTracker::run() const {
  const std::scoped_lock lock(mutex_);
  return run_;
}

fs::path FileTracker::folder() const {
  return folder_of(run());
}

std::string FileTracker::continued_run(const std::string& saved) {
  return saved;
}

Json FileTracker::state_dict() const {
  return Json::object({{"run", run()}});
}

void FileTracker::resume(const Json& state, std::int64_t time_us) {
  const Json* const saved = state.find("run");
  if (saved == nullptr || !saved->is_string() ||
      !fs::is_directory(folder_of(saved->as_string()))) {
    return;  // The files are elsewhere: this is a new run.
  }
  const std::string continued = continued_run(saved->as_string());
  if (continued != run()) {
    const fs::path before = folder();
    discard();
    std::error_code not_empty;
    fs::remove(before, not_empty);
    const std::scoped_lock lock(mutex_);
    run_ = continued;
  }
  // Entries with this time are removed if the checkpoint is loaded again.
  opened_us_ = time_us + 1;
  open(folder(), time_us);
  if (config_) {
    write_config(*config_);
  }
}

std::vector<std::string> write_image_files(
    const fs::path& folder, std::int64_t step, const TrackedImageEntry& entry) {
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < entry.images.size(); ++i) {
    char number[32];
    std::snprintf(
        number, sizeof(number), "%08lld", static_cast<long long>(step));
    const fs::path path = fs::path("images") / file_name_of(entry.key) /
                          str_cat("step-", number, "-", i, ".png");
    write_file(folder / path, entry.images[i].png);
    paths.push_back(path.string());
  }
  return paths;
}

}  // namespace accelerate
