// SPDX-License-Identifier: Apache-2.0
#include "cli/command.h"

#include <algorithm>

#include "base/str_cat.h"
#include "cli/commands/checkpoint.h"
#include "cli/commands/completion.h"
#include "cli/commands/config.h"
#include "cli/commands/env.h"
#include "cli/commands/estimate_memory.h"
#include "cli/commands/explain.h"
#include "cli/commands/help.h"
#include "cli/commands/jupyter.h"
#include "cli/commands/launch.h"
#include "cli/commands/plot.h"
#include "cli/commands/test.h"

namespace accelerate {

const std::vector<Command>& all_commands() {
  static const std::vector<Command> all = {
      {config_info, run_config},
      {launch_info, run_launch},
      {explain_info, run_explain},
      {test_info, run_test},
      {checkpoint_info, run_checkpoint},
      {plot_info, run_plot},
      {estimate_memory_info, run_estimate_memory},
      {jupyter_info, run_jupyter},
      {env_info, run_env},
      {help_info, run_help},
      {completion_info, run_completion},
  };
  return all;
}

const Command* find_command(std::string_view name) {
  const auto& all = all_commands();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Command& command) {
        return command.info().name == name;
      });
  return found == all.end() ? nullptr : &*found;
}

std::string version_text() {
  return str_cat("accelerate-cpp ", ACCELERATE_VERSION);
}

}  // namespace accelerate
