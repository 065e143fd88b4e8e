// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/launch_settings.h"

#include "config/config_file.h"
#include "launch/plan.h"
#include "launch/slurm.h"

namespace accelerate {

std::vector<ArgOption> launch_options() {
  std::vector<ArgOption> options;
  for (const Setting& setting : all_settings()) {
    if (!setting.flag.empty()) {
      options.push_back(option_of(setting));
    }
  }
  return options;
}

namespace {

// `--cpu` overrides all device settings in a configuration file. Hugging Face
// Accelerate ignores the whole default file instead.
void forget_devices(Settings& settings) {
  const Settings defaults;
  for (const char* name : {"distributed_type", "gpu_ids"}) {
    settings.set(name, defaults.value(name), defaults.origin(name));
  }
}

}  // namespace

LaunchSettings gather_settings(
    const ParsedArgs& arguments, const CommandContext& context) {
  LaunchSettings result;
  result.files = apply_config_files(
      result.settings, arguments.get("config_file"), context.environment);
  if (arguments.has("cpu")) {
    forget_devices(result.settings);
  }
  result.settings.apply(context.environment);
  for (const ParsedOption& option : arguments.options) {
    if (const Setting* setting = find_setting_by_flag(option.name)) {
      result.settings.apply_flag(*setting, option.text, option.flag);
    }
  }
  result.hardware = detect_hardware(context.environment);
  check_slurm_launch(result.settings, context.environment);
  complete_settings(result.settings, result.hardware, context.environment);
  return result;
}

}  // namespace accelerate
