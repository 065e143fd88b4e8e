// SPDX-License-Identifier: Apache-2.0
// A tracker for tests, which keeps everything in memory.
#pragma once

#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/tracker.h"

namespace accelerate {

class CollectingTracker : public GeneralTracker {
 public:
  explicit CollectingTracker(std::string name = "collecting")
      : name_(std::move(name)) {}

  std::string name() const override { return name_; }
  void start(const TrackerSetup& setup) override { started = setup; }
  void store_init_configuration(const Json& value) override { config = value; }
  void log(const TrackedValues& values) override {
    std::unique_lock lock(mutex);
    opened.wait(lock, [this] { return open; });
    if (values.step == failing_step) {
      throw std::runtime_error("no space");
    }
    logged.push_back(values);
  }
  void log_images(const TrackedImages& value) override {
    images.push_back(value);
  }
  void log_table(const TrackedTable& value) override {
    tables.push_back(value);
  }
  void finish() override { finished = true; }
  Json state_dict() const override {
    return Json::object({{"run", started.run}});
  }
  void resume(const Json& state, std::int64_t time_us) override {
    resumed = state;
    resumed_at = time_us;
  }

  /// After `set_open(false)`, calls to `log` wait until `set_open(true)`.
  void set_open(bool value) {
    const std::scoped_lock lock(mutex);
    open = value;
    opened.notify_all();
  }

  std::mutex mutex;
  std::condition_variable opened;
  bool open = true;
  std::int64_t failing_step = -1;
  TrackerSetup started;
  Json config;
  std::vector<TrackedValues> logged;
  std::vector<TrackedImages> images;
  std::vector<TrackedTable> tables;
  Json resumed;
  std::int64_t resumed_at = 0;
  bool finished = false;

 private:
  std::string name_;
};

}  // namespace accelerate
