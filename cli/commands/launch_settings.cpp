// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/launch_settings.h"

#include "config/config_file.h"
#include "launch/plan.h"

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

LaunchSettings gather_settings(
    const ParsedArgs& arguments, const CommandContext& context) {
  LaunchSettings result;
  // As in Hugging Face Accelerate: with --cpu on the command line, the default
  // file does not apply.
  const bool reads_file = arguments.has("config_file") || !arguments.has("cpu");
  if (reads_file) {
    result.files = apply_config_files(
        result.settings, arguments.get("config_file"), context.environment);
  }
  result.settings.apply(context.environment);
  for (const ParsedOption& option : arguments.options) {
    if (const Setting* setting = find_setting_by_flag(option.name)) {
      result.settings.apply_flag(*setting, option.text, option.flag);
    }
  }
  result.hardware = detect_hardware(context.environment);
  complete_settings(result.settings, result.hardware, context.environment);
  return result;
}

}  // namespace accelerate
