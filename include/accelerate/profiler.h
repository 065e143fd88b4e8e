// SPDX-License-Identifier: Apache-2.0
// Measures where a training step spends its time.
//
//     {
//       accelerate::Profiler profiler({.output_trace_dir = "trace"});
//       train();
//     }  // trace/profile_0.json, for chrome://tracing or Perfetto
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/export.h"

namespace accelerate {

class Profiler;

enum class ProfilerActivity { cpu, cuda };

/// Which steps are recorded. After `skip_first` steps, cycles begin. Each cycle
/// has `wait` idle steps, `warmup` steps whose recording is discarded, and
/// `active` steps whose recording is kept. There are `repeat` cycles; if
/// `repeat` is 0, cycles continue until the profiler stops.
struct ProfileSchedule {
  std::int64_t wait = 0;
  std::int64_t warmup = 0;
  std::int64_t active = 1;
  std::int64_t repeat = 0;
  std::int64_t skip_first = 0;
};

struct ProfileKwargs {
  /// What to record. Default: the CPU, and CUDA if available.
  std::optional<std::vector<ProfilerActivity>> activities = std::nullopt;
  /// Which steps to record. Default: everything until the profiler stops.
  std::optional<ProfileSchedule> schedule_option = std::nullopt;
  /// Called after each recording.
  std::function<void(Profiler&)> on_trace_ready = {};
  bool record_shapes = false;
  bool profile_memory = false;
  /// Exists only in Python; if true, the constructor throws `UnsupportedError`.
  bool with_stack = false;
  bool with_flops = false;
  /// Works only with TorchScript; if true, the constructor throws
  /// `UnsupportedError`.
  bool with_modules = false;
  /// The folder for `profile_<process index>.json`, which is written at the
  /// end. A missing folder is created. Default: no file is written.
  std::optional<std::string> output_trace_dir = std::nullopt;
};

/// The totals for one operation over all its calls.
struct ProfileEntry {
  std::string name;
  std::int64_t calls = 0;
  std::chrono::nanoseconds total_time{0};
  std::uint64_t flops = 0;  ///< 0 unless `with_flops` is true.
};

/// Records LibTorch's operations from its construction until `stop` is called
/// or the profiler is destroyed.
///
/// The constructor throws `StateError` if another profiler is running in this
/// process. Thread safety: use a profiler from only one thread at a time.
class ACCELERATE_API Profiler {
 public:
  /// `process_index` is part of the file name. Default: the process index of
  /// the `PartialState`, or 0 if there is none.
  explicit Profiler(
      ProfileKwargs options = {},
      std::optional<std::int64_t> process_index = std::nullopt);
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;
  /// Same as `stop`, but prints errors to stderr instead of throwing.
  ~Profiler();

  /// Marks the end of a training step and advances the schedule.
  void step();
  std::int64_t step_num() const;

  /// Ends the recording and writes the trace. Later calls do nothing.
  ///
  /// Throws `StateError` when `output_trace_dir` is set but the schedule never
  /// reached an active step, and `IoError` when the trace cannot be written.
  void stop();

  /// Writes the last recording to the file `path`, for chrome://tracing. Throws
  /// the same errors as `stop`.
  void export_chrome_trace(const std::string& path);
  /// Returns the totals for each operation in the last recording, longest total
  /// time first.
  std::vector<ProfileEntry> key_averages() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accelerate
