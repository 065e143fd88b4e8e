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
    throw InternalError(str_cat("`", name, "` is not in the registry"));
  }
  return found->second;
}

void Settings::set(std::string_view name, Json value, Origin origin) {
  auto& place = const_cast<Entry&>(entry(name));
  place.value = std::move(value);
  place.origin = std::move(origin);
}

const Json& Settings::value(std::string_view name) const {
  return entry(name).value;
}

const Origin& Settings::origin(std::string_view name) const {
  return entry(name).origin;
}

bool Settings::is_given(std::string_view name) const {
  const auto kind = origin(name).kind;
  return kind != Origin::Kind::built_in && kind != Origin::Kind::found;
}

bool Settings::is_typed(std::string_view name) const {
  return origin(name).kind == Origin::Kind::command_line;
}

bool Settings::flag(std::string_view name) const {
  const Json& found = value(name);
  return found.is_bool() && found.as_bool();
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

// "--cpu" and "default_config.yaml:3": a name for where a value stands.
std::string place(const Settings& settings, const char* name) {
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
  if (settings.flag("use_cpu") && settings.is_typed("use_cpu") &&
      settings.is_typed("gpu_ids")) {
    throw ConfigError(
        "--cpu and --gpu_ids exclude each other", "keep the one you mean");
  }
  // A typed --cpu overrules a file; two words of equal weight do not.
  const char* gpus =
      settings.flag("multi_gpu") ? "multi_gpu" : "distributed_type";
  const bool overruled =
      settings.origin("use_cpu").kind > settings.origin(gpus).kind;
  if (settings.flag("use_cpu") && wants_gpus && !overruled) {
    throw ConfigError(
        str_cat(
            place(settings, "use_cpu"),
            " and ",
            place(settings, gpus),
            " exclude each other"),
        "keep the one you mean");
  }
}

void check_processes(const Settings& settings) {
  const bool alone = settings.text("distributed_type") == "NO";
  if (alone && settings.has("num_processes") &&
      settings.integer("num_processes") > 1 &&
      !settings.is_typed("num_processes") && !settings.flag("multi_gpu")) {
    throw ConfigError(
        str_cat(
            place(settings, "num_processes"),
            " and ",
            place(settings, "distributed_type"),
            " exclude each other"),
        "set `distributed_type` to MULTI_CPU or MULTI_GPU");
  }
}

// Typed for several machines, where there is one.
void check_machines_are_several(const Settings& settings) {
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
    if (settings.is_typed(name)) {
      throw ConfigError(
          str_cat(
              place(settings, name),
              " is for several machines, and there is one"),
          "add `--num_machines N`, or leave it out");
    }
  }
}

void check_logs(const Settings& settings) {
  if (!settings.has("tee")) {
    return;
  }
  const bool keeps_some = settings.integer("tee") > 0;
  if (keeps_some && !settings.has("log_dir")) {
    throw ConfigError(
        str_cat(place(settings, "tee"), " needs a folder to write to"),
        "add `--log_dir logs`");
  }
  // A typed `--tee 0` overrules a folder in a file; two typed words do not.
  if (!keeps_some && settings.is_typed("log_dir")) {
    throw ConfigError(
        str_cat(
            place(settings, "log_dir"),
            " keeps nothing: `tee` is 0 (",
            settings.origin("tee").text(),
            ")"),
        "leave one of them out");
  }
}

void check_machines(const Settings& settings) {
  check_machines_are_several(settings);
  if (settings.is_typed("rdzv_conf") && settings.is_typed("rdzv_timeout")) {
    throw ConfigError(
        "--rdzv_conf and --rdzv_timeout say the same thing",
        "keep one of them");
  }
  if (settings.integer("machine_rank") >= settings.integer("num_machines") &&
      settings.is_given("machine_rank")) {
    throw ConfigError(str_cat(
        place(settings, "machine_rank"),
        ": machine ",
        settings.integer("machine_rank"),
        " of ",
        settings.integer("num_machines"),
        " does not exist; they are counted from 0"));
  }
}

}  // namespace

void check_contradictions(const Settings& settings) {
  check_devices(settings);
  check_processes(settings);
  if (settings.flag("module") && settings.flag("no_python")) {
    throw ConfigError("--module and --no_python exclude each other");
  }
  check_logs(settings);
  check_machines(settings);
}

}  // namespace accelerate
