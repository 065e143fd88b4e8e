// SPDX-License-Identifier: Apache-2.0
// Trackers that are written in Python, for programs written in C++.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/tracker.h"
#include "tracking/tracker_process.h"

namespace accelerate {

struct PythonTrackerLimits {
  /// How long `start` waits; a service may have to create a run on its server.
  std::chrono::milliseconds start{120'000};
  std::chrono::milliseconds call{60'000};
  /// How long `finish` waits for the answer, and then for the process to end.
  std::chrono::milliseconds finish{60'000};
};

/// Runs a tracker in a child process, with the `python3` on PATH and its
/// package `accelerate_cpp`. `start` throws `UnsupportedError` if Python, this
/// package or the service's own package is missing. Afterwards, if the
/// child process dies or hangs, each call throws `IoError` with the reason.
class PythonTracker : public GeneralTracker {
 public:
  /// `name` names a service, or is `module:Class` for a subclass of the Python
  /// class `accelerate_cpp.GeneralTracker`.
  explicit PythonTracker(std::string name, PythonTrackerLimits limits = {});

  std::string name() const override { return name_; }
  bool requires_logging_directory() const override;
  void start(const TrackerSetup& setup) override;
  void store_init_configuration(const Json& config) override;
  void log(const TrackedValues& values) override;
  void log_images(const TrackedImages& images) override;
  void log_table(const TrackedTable& table) override;
  void finish() override;
  std::chrono::milliseconds finish_timeout() const override;

 private:
  /// Sends a request; throws the error in the answer, if there is one.
  void call(const Json& request, std::chrono::milliseconds timeout);

  std::string name_;
  PythonTrackerLimits limits_;
  std::unique_ptr<TrackerProcess> process_;
};

/// Returns the names of the services: `aim`, `clearml`, `comet_ml`, `swanlab`.
const std::vector<std::string>& python_service_names();

/// Returns whether `name` has the form `module:Class`.
bool names_python_class(const std::string& name);

}  // namespace accelerate
