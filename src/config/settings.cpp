// SPDX-License-Identifier: Apache-2.0
#include "config/settings.h"

#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate {

std::string value_text(const Json& value) {
  return value.is_string() ? value.as_string() : value.dump();
}

std::string Origin::text() const {
  switch (kind) {
    case Kind::built_in:
      return where.empty() ? "default" : str_cat("default: ", where);
    case Kind::found:
      return str_cat("found: ", where);
    case Kind::environment:
      return str_cat("environment: ", where);
    case Kind::file:
    case Kind::command_line:
      return where;
  }
  return where;
}

Settings::Settings() {
  for (const Setting& setting : all_settings()) {
    Json value;
    if (!setting.default_text.empty()) {
      value = parse_setting(setting, setting.default_text, setting.name);
    }
    entries_[setting.name] = {std::move(value), Origin()};
  }
}

const Settings::Entry& Settings::entry(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    throw InternalError(
        str_cat("the setting `", name, "` is not in the registry of settings"));
  }
  return found->second;
}

void Settings::set(std::string_view name, Json value, Origin origin) {
  auto& target = const_cast<Entry&>(entry(name));
  target.value = std::move(value);
  target.origin = std::move(origin);
}

const Json& Settings::value(std::string_view name) const {
  return entry(name).value;
}

const Origin& Settings::origin(std::string_view name) const {
  return entry(name).origin;
}

bool Settings::is_set_by_user(std::string_view name) const {
  const auto kind = origin(name).kind;
  return kind != Origin::Kind::built_in && kind != Origin::Kind::found;
}

bool Settings::is_from_command_line(std::string_view name) const {
  return origin(name).kind == Origin::Kind::command_line;
}

bool Settings::flag(std::string_view name) const {
  const Json& json = value(name);
  return json.is_bool() && json.as_bool();
}

std::int64_t Settings::integer(std::string_view name) const {
  return value(name).as_integer();
}

double Settings::real(std::string_view name) const {
  return value(name).as_double();
}

std::string Settings::text(std::string_view name) const {
  return has(name) ? value_text(value(name)) : std::string();
}

void Settings::apply(const Environment& environment) {
  for (const Setting& setting : all_settings()) {
    if (setting.variable.empty()) {
      continue;
    }
    const auto text = environment.get(setting.variable);
    if (text) {
      set(setting.name,
          parse_setting(
              setting,
              *text,
              str_cat("environment variable ", setting.variable)),
          {Origin::Kind::environment, setting.variable});
    }
  }
}

void Settings::apply_flag(
    const Setting& setting, const std::string& text, const std::string& flag) {
  set(setting.name,
      parse_setting(setting, text, flag),
      {Origin::Kind::command_line, flag});
}

namespace {

// Returns text such as "--cpu" or "`num_processes: 2` (default_config.yaml:3)".
std::string describe_source(const Settings& settings, const char* name) {
  const Origin& origin = settings.origin(name);
  const bool is_flag = origin.kind == Origin::Kind::command_line;
  return is_flag ? origin.where
                 : str_cat(
                       "`",
                       name,
                       ": ",
                       settings.text(name),
                       "` (",
                       origin.text(),
                       ")");
}

void check_devices(const Settings& settings) {
  const std::string type = settings.text("distributed_type");
  const bool wants_gpus = settings.flag("multi_gpu") || type == "MULTI_GPU";
  for (const char* const name : {"gpu_ids", "ranks_per_gpu"}) {
    if (settings.flag("use_cpu") && settings.is_from_command_line("use_cpu") &&
        settings.is_from_command_line(name)) {
      throw ConfigError(
          str_cat("--cpu and --", name, " contradict each other"),
          "remove one of them");
    }
  }
  // `--cpu` overrides a file, but settings from two sources of the same kind
  // contradict each other.
  const char* gpus =
      settings.flag("multi_gpu") ? "multi_gpu" : "distributed_type";
  const bool is_overridden =
      settings.origin("use_cpu").kind > settings.origin(gpus).kind;
  if (settings.flag("use_cpu") && wants_gpus && !is_overridden) {
    throw ConfigError(
        str_cat(
            describe_source(settings, "use_cpu"),
            " and ",
            describe_source(settings, gpus),
            " contradict each other"),
        "remove one of them");
  }
}

void check_processes(const Settings& settings) {
  const bool is_single_process = settings.text("distributed_type") == "NO";
  if (is_single_process && settings.has("num_processes") &&
      settings.integer("num_processes") > 1 &&
      !settings.is_from_command_line("num_processes") &&
      !settings.flag("multi_gpu")) {
    throw ConfigError(
        str_cat(
            describe_source(settings, "num_processes"),
            " and ",
            describe_source(settings, "distributed_type"),
            " contradict each other"),
        "set `distributed_type` to MULTI_CPU or MULTI_GPU");
  }
}

// Rejects flags for several machines when there is one.
void check_flags_for_several_machines(const Settings& settings) {
  if (settings.integer("num_machines") > 1) {
    return;
  }
  for (const char* name :
       {"main_process_ip",
        "same_network",
        "rdzv_backend",
        "rdzv_conf",
        "rdzv_timeout",
        "job_secret_file"}) {
    if (settings.is_from_command_line(name)) {
      throw ConfigError(
          str_cat(
              describe_source(settings, name),
              " is for multi-machine jobs, but this job runs on a single "
              "machine"),
          str_cat(
              "add `--num_machines N`, or remove `",
              settings.origin(name).where,
              "`"));
    }
  }
}

void check_logs(const Settings& settings) {
  if (!settings.has("tee")) {
    return;
  }
  const bool writes_files = settings.integer("tee") > 0;
  if (writes_files && !settings.has("log_dir")) {
    throw ConfigError(
        str_cat(
            describe_source(settings, "tee"), " needs a folder to write to"),
        "add `--log_dir logs`");
  }
  // `--tee 0` overrides a log folder that is set in a file, but contradicts
  // `--log_dir`.
  if (!writes_files && settings.is_from_command_line("log_dir")) {
    throw ConfigError(
        str_cat(
            describe_source(settings, "log_dir"),
            " writes no files because `tee` is 0 (",
            settings.origin("tee").text(),
            ")"),
        "remove `--log_dir`, or set `tee` to 1, 2 or 3");
  }
}

void check_machines(const Settings& settings) {
  check_flags_for_several_machines(settings);
  if (settings.is_from_command_line("rdzv_conf") &&
      settings.is_from_command_line("rdzv_timeout")) {
    throw ConfigError(
        "--rdzv_conf and --rdzv_timeout set the same timeout",
        "remove one of them");
  }
  if (settings.integer("machine_rank") >= settings.integer("num_machines") &&
      settings.is_set_by_user("machine_rank")) {
    throw ConfigError(str_cat(
        describe_source(settings, "machine_rank"),
        ": there is no machine ",
        settings.integer("machine_rank"),
        "; `num_machines` is ",
        settings.integer("num_machines"),
        ", and ranks start at 0"));
  }
}

}  // namespace

void check_contradictions(const Settings& settings) {
  check_devices(settings);
  check_processes(settings);
  if (settings.flag("module") && settings.flag("no_python")) {
    throw ConfigError(
        "--module and --no_python cannot be used together",
        "remove one of them");
  }
  check_logs(settings);
  check_machines(settings);
}

}  // namespace accelerate
