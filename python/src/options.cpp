// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <chrono>
#include <initializer_list>
#include <string>
#include <utility>

#include "accelerate/error.h"
#include "python_optimizer.h"
#include "python_tracker.h"

namespace accelerate::python {
namespace {

/// Reads the entries of a dict one by one, and detects unknown entries.
class Fields {
 public:
  Fields(std::string name, const py::dict& options)
      : name_(std::move(name)), remaining_(options.attr("copy")()) {}

  template <typename T>
  void read(const char* field, T& value) {
    if (const py::object entry = take(field); !entry.is_none()) {
      value = entry.cast<T>();
    }
  }
  template <typename T>
  void read(const char* field, std::optional<T>& value) {
    if (const py::object entry = take(field); !entry.is_none()) {
      value = entry.cast<T>();
    }
  }
  /// Reads the name of an enum value.
  template <typename T>
  void read_choice(
      const char* field,
      T& value,
      std::initializer_list<std::pair<const char*, T>> choices) {
    const py::object entry = take(field);
    if (entry.is_none()) {
      return;
    }
    const auto chosen = entry.cast<std::string>();
    std::string names;
    for (const auto& [name, choice] : choices) {
      if (chosen == name) {
        value = choice;
        return;
      }
      names += (names.empty() ? "`" : ", `") + std::string(name) + "`";
    }
    throw ArgumentError(
        name_ + ": " + field + " is `" + chosen +
            "`, which is not a valid value",
        "use one of " + names);
  }
  py::object take(const char* field) {
    return remaining_.contains(field)
               ? py::object(remaining_.attr("pop")(field))
               : py::none();
  }
  void finish() const {
    for (const auto& [field, value] : remaining_) {
      throw ArgumentError(
          name_ + " has no option `" + std::string(py::str(field)) + "`");
    }
  }

 private:
  std::string name_;
  py::dict remaining_;
};

template <typename Convert>
void read_nested(Fields& fields, const char* field, const Convert& convert) {
  if (const py::object entry = fields.take(field); !entry.is_none()) {
    convert(entry.cast<py::dict>());
  }
}

std::optional<std::chrono::milliseconds> duration(const py::object& seconds) {
  return seconds.is_none()
             ? std::nullopt
             : std::optional(std::chrono::milliseconds(
                   static_cast<std::int64_t>(seconds.cast<double>() * 1000)));
}

DataLoaderConfiguration data_loader_configuration(const py::dict& options) {
  Fields fields("DataLoaderConfiguration", options);
  DataLoaderConfiguration result;
  fields.read("split_batches", result.split_batches);
  fields.read("dispatch_batches", result.dispatch_batches);
  fields.read("even_batches", result.even_batches);
  fields.read("use_seedable_sampler", result.use_seedable_sampler);
  fields.read("data_seed", result.data_seed);
  fields.read("non_blocking", result.non_blocking);
  fields.finish();
  return result;
}

GradientAccumulationPlugin accumulation_plugin(const py::dict& options) {
  Fields fields("GradientAccumulationPlugin", options);
  GradientAccumulationPlugin result;
  fields.read("num_steps", result.num_steps);
  fields.read("adjust_scheduler", result.adjust_scheduler);
  fields.read("sync_with_dataloader", result.sync_with_dataloader);
  fields.read("sync_each_batch", result.sync_each_batch);
  fields.read_choice(
      "weighting",
      result.weighting,
      {{"fixed", AccumulationWeighting::fixed},
       {"group", AccumulationWeighting::group},
       {"weighted", AccumulationWeighting::weighted}});
  fields.finish();
  return result;
}

DistributedDataParallelKwargs ddp_kwargs(const py::dict& options) {
  Fields fields("DistributedDataParallelKwargs", options);
  DistributedDataParallelKwargs result;
  fields.read("broadcast_buffers", result.broadcast_buffers);
  fields.read("bucket_cap_mb", result.bucket_cap_mb);
  fields.read_choice(
      "comm_hook",
      result.comm_hook,
      {{"no", CommHook::no},
       {"fp16", CommHook::fp16},
       {"bf16", CommHook::bf16}});
  fields.finish();
  return result;
}

GradScalerKwargs scaler_kwargs(const py::dict& options) {
  Fields fields("GradScalerKwargs", options);
  GradScalerKwargs result;
  fields.read("init_scale", result.init_scale);
  fields.read("growth_factor", result.growth_factor);
  fields.read("backoff_factor", result.backoff_factor);
  fields.read("growth_interval", result.growth_interval);
  fields.read("enabled", result.enabled);
  fields.finish();
  return result;
}

AutocastKwargs autocast_kwargs(const py::dict& options) {
  Fields fields("AutocastKwargs", options);
  AutocastKwargs result;
  fields.read("enabled", result.enabled);
  fields.read("cache_enabled", result.cache_enabled);
  fields.finish();
  return result;
}

// Names, and adapters of trackers that are written in Python.
std::vector<LogWith> log_with(const py::iterable& trackers) {
  std::vector<LogWith> result;
  for (const py::handle tracker : trackers) {
    if (py::isinstance<py::str>(tracker)) {
      result.emplace_back(tracker.cast<std::string>());
    } else {
      result.emplace_back(std::make_shared<PythonTracker>(
          py::reinterpret_borrow<py::object>(tracker)));
    }
  }
  return result;
}

ProjectConfiguration project_configuration(const py::dict& options) {
  Fields fields("ProjectConfiguration", options);
  ProjectConfiguration result;
  std::string folder;
  fields.read("project_dir", folder);
  result.project_dir = folder;
  std::string logs;
  fields.read("logging_dir", logs);
  result.logging_dir = logs;
  fields.read(
      "automatic_checkpoint_naming", result.automatic_checkpoint_naming);
  fields.read("total_limit", result.total_limit);
  fields.read("iteration", result.iteration);
  fields.read("save_on_each_node", result.save_on_each_node);
  fields.finish();
  return result;
}

}  // namespace

InitProcessGroupKwargs init_process_group_kwargs(const py::dict& options) {
  Fields fields("InitProcessGroupKwargs", options);
  InitProcessGroupKwargs result;
  std::string backend;
  fields.read("backend", backend);
  if (!backend.empty()) {
    result.backend = parse_backend(backend);
  }
  fields.read("init_method", result.init_method);
  result.timeout = duration(fields.take("timeout"));
  result.warn_after = duration(fields.take("warn_after"));
  fields.finish();
  return result;
}

ProfileKwargs profile_kwargs(const py::dict& options) {
  Fields fields("ProfileKwargs", options);
  ProfileKwargs result;
  std::optional<std::vector<std::string>> activities;
  fields.read("activities", activities);
  if (activities) {
    result.activities.emplace();
    for (const std::string& name : *activities) {
      if (name != "cpu" && name != "cuda") {
        throw ArgumentError(
            "ProfileKwargs: `" + name + "` is not a profiler activity",
            "use `cpu` or `cuda`");
      }
      result.activities->push_back(
          name == "cpu" ? ProfilerActivity::cpu : ProfilerActivity::cuda);
    }
  }
  read_nested(fields, "schedule_option", [&](const py::dict& schedule) {
    Fields parts("ProfileKwargs.schedule_option", schedule);
    ProfileSchedule& result_schedule = result.schedule_option.emplace();
    parts.read("wait", result_schedule.wait);
    parts.read("warmup", result_schedule.warmup);
    parts.read("active", result_schedule.active);
    parts.read("repeat", result_schedule.repeat);
    parts.read("skip_first", result_schedule.skip_first);
    parts.finish();
  });
  if (const py::object function = fields.take("on_trace_ready");
      !function.is_none()) {
    result.on_trace_ready = [held = Adapter(function)](Profiler& profiler) {
      const py::gil_scoped_acquire gil;
      held.object()(py::cast(&profiler, py::return_value_policy::reference));
    };
  }
  fields.read("record_shapes", result.record_shapes);
  fields.read("profile_memory", result.profile_memory);
  fields.read("with_stack", result.with_stack);
  fields.read("with_flops", result.with_flops);
  fields.read("with_modules", result.with_modules);
  fields.read("output_trace_dir", result.output_trace_dir);
  fields.finish();
  return result;
}

AcceleratorOptions accelerator_options(const py::dict& options) {
  Fields fields("Accelerator", options);
  AcceleratorOptions result;
  fields.read("device_placement", result.device_placement);
  fields.read("split_batches", result.split_batches);
  std::optional<std::string> precision;
  fields.read("mixed_precision", precision);
  if (precision) {
    result.mixed_precision = parse_precision(*precision);
  }
  fields.read(
      "gradient_accumulation_steps", result.gradient_accumulation_steps);
  fields.read("cpu", result.cpu);
  fields.read("allow_tf32", result.allow_tf32);
  read_nested(fields, "dataloader_config", [&](const py::dict& value) {
    result.dataloader_config = data_loader_configuration(value);
  });
  read_nested(fields, "gradient_accumulation_plugin", [&](const py::dict& v) {
    result.gradient_accumulation_plugin = accumulation_plugin(v);
  });
  fields.read(
      "step_scheduler_with_optimizer", result.step_scheduler_with_optimizer);
  fields.read_choice(
      "scheduler_unit",
      result.scheduler_unit,
      {{"per_process", SchedulerUnit::per_process},
       {"per_optimizer_step", SchedulerUnit::per_optimizer_step}});
  read_nested(fields, "ddp_kwargs", [&](const py::dict& value) {
    result.ddp_kwargs = ddp_kwargs(value);
  });
  read_nested(fields, "scaler_kwargs", [&](const py::dict& value) {
    result.scaler_kwargs = scaler_kwargs(value);
  });
  read_nested(fields, "autocast_kwargs", [&](const py::dict& value) {
    result.autocast_kwargs = autocast_kwargs(value);
  });
  read_nested(fields, "init_process_group_kwargs", [&](const py::dict& value) {
    result.init_process_group_kwargs = init_process_group_kwargs(value);
  });
  read_nested(fields, "project_config", [&](const py::dict& value) {
    result.project_config = project_configuration(value);
  });
  read_nested(fields, "profile_kwargs", [&](const py::dict& value) {
    result.profile_kwargs = profile_kwargs(value);
  });
  std::optional<std::string> folder;
  fields.read("project_dir", folder);
  if (folder) {
    result.project_dir = *folder;
  }
  if (const py::object trackers = fields.take("log_with");
      !trackers.is_none()) {
    result.log_with = log_with(trackers);
  }
  std::vector<std::string> kinds;
  fields.read("rng_types", kinds);
  for (const std::string& kind : kinds) {
    if (kind != "torch" && kind != "generator" && kind != "cuda") {
      throw ArgumentError(
          "rng_types contains `" + kind + "`, which is not supported",
          "use only `torch`, `generator` and `cuda`");
    }
    result.rng_types.push_back(
        kind == "torch"  ? RngType::torch
        : kind == "cuda" ? RngType::cuda
                         : RngType::generator);
  }
  fields.finish();
  return result;
}

}  // namespace accelerate::python
