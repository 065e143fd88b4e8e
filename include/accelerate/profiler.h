// SPDX-License-Identifier: Apache-2.0
// Where the time of a training step goes.
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

/// Which steps are recorded: after `skip_first`, again and again `wait` steps
/// of nothing, `warmup` that are recorded and thrown away, `active` that are
/// kept. `repeat` times, or as long as there are steps if 0.
struct ProfileSchedule {
  std::int64_t wait = 0;
  std::int64_t warmup = 0;
  std::int64_t active = 1;
  std::int64_t repeat = 0;
  std::int64_t skip_first = 0;
};

struct ProfileKwargs {
  /// The CPU, and CUDA where there is some, if left out.
  std::optional<std::vector<ProfilerActivity>> activities = std::nullopt;
  /// All from start to end if left out.
  std::optional<ProfileSchedule> schedule_option = std::nullopt;
  /// Called at the end of each recording.
  std::function<void(Profiler&)> on_trace_ready = {};
  bool record_shapes = false;
  bool profile_memory = false;
  /// Stacks and modules are those of Python: true is an `UnsupportedError`.
  bool with_stack = false;
  bool with_flops = false;
  bool with_modules = false;
  /// Where `profile_<process index>.json` is written in the end; the folder is
  /// made. Nothing is written if left out.
  std::optional<std::string> output_trace_dir = std::nullopt;
};

/// One operation, over all its calls.
struct ProfileEntry {
  std::string name;
  std::int64_t calls = 0;
  std::chrono::nanoseconds total_time{0};
  std::uint64_t flops = 0;  ///< Known with `with_flops`.
};

/// Records what LibTorch does, from its construction to `stop` or the end of
/// its scope.
///
/// One at a time in a process (`StateError`), used on one thread.
class ACCELERATE_API Profiler {
 public:
  /// `process_index` is in the file's name; that of the `PartialState`, else 0.
  explicit Profiler(
      ProfileKwargs options = {},
      std::optional<std::int64_t> process_index = std::nullopt);
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;
  /// As `stop`, but reports an error to stderr instead of throwing.
  ~Profiler();

  /// A training step ends; moves the schedule on.
  void step();
  std::int64_t step_num() const;

  /// Ends the recording and writes the trace. Later calls do nothing.
  ///
  /// Throws `StateError` when a trace was asked for and the schedule never
  /// came to an active step, `IoError` when it cannot be written.
  void stop();

  /// Writes the last recording for chrome://tracing. Throws as `stop`.
  void export_chrome_trace(const std::string& path);
  /// The operations of the last recording, the longest first.
  std::vector<ProfileEntry> key_averages() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace accelerate
