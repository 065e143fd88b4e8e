// SPDX-License-Identifier: Apache-2.0
#include "accelerate/profiler.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include <ATen/Context.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include "accelerate/error.h"
#include "accelerate/partial_state.h"
#include "base/message.h"
#include "base/str_cat.h"
#include "profiling/profile_schedule.h"

namespace accelerate {
namespace {

namespace kineto = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;

void check_options(const ProfileKwargs& options) {
  if (options.schedule_option) {
    check_schedule(*options.schedule_option);
  }
  if (options.with_stack) {
    throw UnsupportedError(
        "`with_stack` records Python stacks, which this library does not "
        "support",
        "use `perf record -g` to record the stacks of a C++ program");
  }
  if (options.with_modules) {
    throw UnsupportedError(
        "`with_modules` records TorchScript modules, which this library does "
        "not support",
        "leave `with_modules` out, and mark regions with `RECORD_FUNCTION`");
  }
}

std::set<ActivityType> activities_of(const ProfileKwargs& options) {
  std::set<ActivityType> result;
  if (!options.activities) {
    result.insert(ActivityType::CPU);
    if (at::hasCUDA()) {
      result.insert(ActivityType::CUDA);
    }
    return result;
  }
  for (const ProfilerActivity activity : *options.activities) {
    if (activity == ProfilerActivity::cuda && !at::hasCUDA()) {
      throw UnsupportedError(
          "`ProfilerActivity::cuda` needs CUDA, which is not available",
          "leave it out, or use a build with CUDA on a machine with a GPU");
    }
    result.insert(
        activity == ProfilerActivity::cpu ? ActivityType::CPU
                                          : ActivityType::CUDA);
  }
  if (result.empty()) {
    throw ArgumentError(
        "`activities` is empty: there is nothing to record",
        "leave it out, or add `ProfilerActivity::cpu`");
  }
  return result;
}

std::int64_t index_or_default(std::optional<std::int64_t> process_index) {
  if (process_index) {
    return *process_index;
  }
  return PartialState::is_initialized() ? PartialState().process_index() : 0;
}

}  // namespace

class Profiler::Impl {
 public:
  Impl(ProfileKwargs options, std::optional<std::int64_t> process_index)
      : options_(std::move(options)),
        activities_((check_options(options_), activities_of(options_))),
        process_index_(index_or_default(process_index)) {
    if (torch::profiler::impl::profilerEnabled()) {
      throw StateError(
          "another profiler is running in this process",
          "stop it before you start another one");
    }
  }

  // Starts the warm-up or the recording if the schedule requires it in the
  // current step.
  void follow_schedule() {
    const ProfileAction action = action_of(options_.schedule_option, step_);
    if (action == ProfileAction::none) {
      return;
    }
    if (!prepared_) {
      kineto::prepareProfiler(config(), activities_);
      prepared_ = true;
    }
    if (action != ProfileAction::warmup && !recording_) {
      kineto::enableProfiler(config(), activities_);
      recording_ = true;
    }
  }

  void step(Profiler& self) {
    if (stopped_) {
      throw StateError("`Profiler::step` was called after `stop`");
    }
    const bool save = action_of(options_.schedule_option, step_) ==
                      ProfileAction::record_and_save;
    ++step_;
    if (save) {
      finish_recording(self);
    }
    follow_schedule();
  }

  void stop(Profiler& self) {
    if (stopped_) {
      return;
    }
    stopped_ = true;
    if (recording_) {
      finish_recording(self);
    } else if (prepared_) {
      // Kineto can end a warm-up only by starting and stopping a recording.
      kineto::enableProfiler(config(), activities_);
      kineto::disableProfiler();
    }
    if (options_.output_trace_dir) {
      write_to(*options_.output_trace_dir);
    }
  }

  void export_to(const std::string& path) {
    if (result_ == nullptr) {
      throw StateError(
          str_cat(
              "there is no trace to write to `",
              path,
              "`: nothing was recorded in ",
              step_,
              step_ == 1 ? " step" : " steps"),
          "call `Profiler::step` after each training step, or shorten the "
          "schedule");
    }
    if (saved_path_.empty()) {
      save_result(path);
    } else if (path != saved_path_) {
      copy_saved(path);
    }
  }

  std::vector<ProfileEntry> key_averages() const {
    std::map<std::string, ProfileEntry> by_name;
    if (result_ != nullptr) {
      for (const kineto::KinetoEvent& event : result_->events()) {
        ProfileEntry& entry = by_name[event.name()];
        entry.name = event.name();
        ++entry.calls;
        entry.total_time += std::chrono::nanoseconds(event.durationNs());
        entry.flops += event.flops();
      }
    }
    std::vector<ProfileEntry> entries;
    for (auto& [name, entry] : by_name) {
      entries.push_back(std::move(entry));
    }
    std::stable_sort(
        entries.begin(), entries.end(), [](const auto& a, const auto& b) {
          return a.total_time > b.total_time;
        });
    return entries;
  }

  std::int64_t step_num() const { return step_; }

 private:
  ProfilerConfig config() const {
    return ProfilerConfig(
        ProfilerState::KINETO,
        options_.record_shapes,
        options_.profile_memory,
        /*with_stack=*/false,
        options_.with_flops,
        /*with_modules=*/false);
  }

  void finish_recording(Profiler& self) {
    result_ = kineto::disableProfiler();
    saved_path_.clear();
    prepared_ = false;
    recording_ = false;
    if (options_.on_trace_ready) {
      options_.on_trace_ready(self);
    }
  }

  void write_to(const std::string& folder) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) {
      throw IoError(str_cat(
          "cannot create the folder `", folder, "`: ", error.message()));
    }
    export_to(str_cat(folder, "/profile_", process_index_, ".json"));
  }

  // LibTorch can write a trace only once, and reports no error.
  void save_result(const std::string& path) {
    std::error_code error;
    std::filesystem::remove(path, error);
    result_->save(path);
    if (!std::filesystem::exists(path, error)) {
      throw IoError(
          str_cat("cannot write the trace to `", path, "`"),
          "check that the folder exists and can be written to");
    }
    saved_path_ = path;
  }

  void copy_saved(const std::string& path) {
    std::error_code error;
    std::filesystem::copy_file(
        saved_path_,
        path,
        std::filesystem::copy_options::overwrite_existing,
        error);
    if (error) {
      throw IoError(
          str_cat("cannot write the trace to `", path, "`: ", error.message()));
    }
  }

  ProfileKwargs options_;
  std::set<ActivityType> activities_;
  std::int64_t process_index_;
  std::int64_t step_ = 0;
  bool prepared_ = false;
  bool recording_ = false;
  bool stopped_ = false;
  std::unique_ptr<kineto::ProfilerResult> result_;
  std::string saved_path_;
};

Profiler::Profiler(
    ProfileKwargs options, std::optional<std::int64_t> process_index)
    : impl_(std::make_unique<Impl>(std::move(options), process_index)) {
  impl_->follow_schedule();
}

Profiler::~Profiler() {
  try {
    stop();
  } catch (const std::exception& error) {
    print_warning(str_cat("the profiler failed: ", error.what()));
  }
}

void Profiler::step() {
  impl_->step(*this);
}
std::int64_t Profiler::step_num() const {
  return impl_->step_num();
}
void Profiler::stop() {
  impl_->stop(*this);
}
void Profiler::export_chrome_trace(const std::string& path) {
  impl_->export_to(path);
}
std::vector<ProfileEntry> Profiler::key_averages() const {
  return impl_->key_averages();
}

}  // namespace accelerate
