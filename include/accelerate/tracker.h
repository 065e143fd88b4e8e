// SPDX-License-Identifier: Apache-2.0
// The interface of trackers, which store the values that a run logs: in files
// (TensorBoard, JSON lines, CSV), on a server, or wherever your own class
// stores them.
//
//     class PrintTracker : public accelerate::GeneralTracker {
//       std::string name() const override { return "print"; }
//       void log(const accelerate::TrackedValues& values) override { … }
//     };
//     accelerate::Accelerator accelerator(
//         {.log_with = {std::make_shared<PrintTracker>()}});
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "accelerate/export.h"
#include "accelerate/json.h"

namespace accelerate {

/// How many values are in each of several intervals.
struct Histogram {
  double min = 0;
  double max = 0;
  double sum = 0;
  double sum_squares = 0;
  /// The upper limit of each interval, in ascending order. An interval begins
  /// at the limit of the previous interval; the first begins at `min`.
  std::vector<double> limits;
  /// The number of values in each interval.
  std::vector<double> counts;

  double total() const;
};

/// A value as trackers see it: never a tensor, never nested.
using TrackedValue =
    std::variant<bool, std::int64_t, double, std::string, Histogram>;

struct TrackedEntry {
  /// Nested keys are joined with `/`.
  std::string key;
  TrackedValue value;
};

/// The values of one call to `Accelerator::log`.
struct TrackedValues {
  std::int64_t step = 0;
  /// When `log` was called, in microseconds since 1970. No two calls in a run
  /// have the same time.
  std::int64_t time_us = 0;
  std::vector<TrackedEntry> entries;
  /// The value of `LogValuesOptions::log_kwargs`: arguments for each tracker,
  /// by the tracker's name.
  Json kwargs;
};

/// An image as a PNG file.
struct EncodedImage {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::string png;
};

struct TrackedImageEntry {
  std::string key;
  std::vector<EncodedImage> images;
};

/// The images of one call to `Accelerator::log_images`.
struct TrackedImages {
  std::int64_t step = 0;
  std::int64_t time_us = 0;
  std::vector<TrackedImageEntry> entries;
};

/// The table of one call to `Accelerator::log_table`. Each row has one value
/// per column.
struct TrackedTable {
  std::int64_t step = 0;
  std::int64_t time_us = 0;
  std::string key;
  std::vector<std::string> columns;
  std::vector<std::vector<Json>> rows;
};

/// The run that a tracker starts.
struct TrackerSetup {
  /// The name of the project, as the user wrote it; not safe as a file name.
  std::string project;
  /// The name of the run, which differs from the names of all other runs.
  std::string run;
  /// The folder for logs; empty if the run has none.
  std::filesystem::path logging_dir;
  /// The options for this tracker, from `init_kwargs`.
  Json kwargs;
};

/// Stores the values of a run. To use your own tracker, derive from this class.
/// Then pass an object to `AcceleratorOptions::log_with`, or call
/// `register_tracker_class` and pass the registered name.
///
/// `start` and `state_dict` are called on the thread that trains. All other
/// functions are called on one thread that belongs to this tracker, in the
/// order of the calls to the Accelerator. They may therefore take any amount of
/// time. If the run logs values faster than the tracker handles them, values
/// are dropped, and one warning is printed. An exception from these functions
/// is printed once and never reaches the training loop.
class ACCELERATE_API GeneralTracker {
 public:
  GeneralTracker() = default;
  GeneralTracker(const GeneralTracker&) = delete;
  GeneralTracker& operator=(const GeneralTracker&) = delete;
  virtual ~GeneralTracker();

  virtual std::string name() const = 0;
  /// Returns whether the tracker writes files, so that a run needs a
  /// `logging_dir`.
  virtual bool requires_logging_directory() const;
  /// Returns whether only the main process has this tracker.
  virtual bool main_process_only() const;

  /// Called by `init_trackers`, which rethrows exceptions from this function.
  virtual void start(const TrackerSetup& setup);
  /// Called once, with the configuration passed to `init_trackers`.
  virtual void store_init_configuration(const Json& config);
  virtual void log(const TrackedValues& values) = 0;
  /// Log images and tables. By default, both functions throw
  /// `UnsupportedError`.
  virtual void log_images(const TrackedImages& images);
  virtual void log_table(const TrackedTable& table);
  /// Called when no other call is waiting. Afterwards, everything that was
  /// logged must be readable, even if the process is killed.
  virtual void flush();
  /// Called once, at the end of training.
  virtual void finish();
  /// Returns how long the program waits for this tracker at the end of
  /// training. A value below ten seconds counts as ten seconds.
  virtual std::chrono::milliseconds finish_timeout() const;

  /// Returns a value that identifies this run, for checkpoints.
  virtual Json state_dict() const;
  /// Continues the run that `state` identifies, instead of the run that `start`
  /// began. Values that the continued run logged after `time_us` are obsolete,
  /// because the program will log them again. Called at most once, before
  /// anything is logged.
  virtual void resume(const Json& state, std::int64_t time_us);
};

/// A tracker for `AcceleratorOptions::log_with`: the name of a tracker of this
/// library or of a registered class, `all` for the trackers of this library
/// that write files, or a tracker of your own.
class LogWith {
 public:
  LogWith(const char* name) : name_(name) {}             // NOLINT
  LogWith(std::string name) : name_(std::move(name)) {}  // NOLINT
  template <std::derived_from<GeneralTracker> Tracker>
  LogWith(std::shared_ptr<Tracker> tracker)  // NOLINT
      : tracker_(std::move(tracker)) {}

  /// Returns the name; empty if this is a tracker of your own.
  const std::string& name() const { return name_; }
  const std::shared_ptr<GeneralTracker>& tracker() const { return tracker_; }

 private:
  std::string name_;
  std::shared_ptr<GeneralTracker> tracker_;
};

/// Makes `log_with` accept `name`; `make` creates the tracker. Throws
/// `ArgumentError` if another tracker has this name.
ACCELERATE_API void register_tracker_class(
    const std::string& name,
    std::function<std::shared_ptr<GeneralTracker>()> make);

/// Registers a class that has a default constructor.
template <typename Tracker>
void register_tracker_class() {
  register_tracker_class(
      Tracker().name(), [] { return std::make_shared<Tracker>(); });
}

}  // namespace accelerate
