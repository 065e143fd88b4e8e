// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/launch_settings.h"

#include <cstdio>

#include "base/files.h"
#include "base/text.h"
#include "config/config_file.h"
#include "launch/mpirun.h"
#include "launch/plan.h"
#include "launch/program.h"

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
  // As in the Python package: a typed --cpu means the default file is for
  // something else.
  const bool reads_file = arguments.has("config_file") || !arguments.has("cpu");
  if (reads_file) {
    result.files = apply_config_files(
        result.settings, arguments.get("config_file"), context.environment);
  }
  result.settings.apply(context.environment);
  for (const ParsedOption& option : arguments.options) {
    if (const Setting* setting = find_setting_by_flag(option.name)) {
      result.settings.apply_flag(*setting, option.text, option.spelled);
    }
  }
  result.hardware = detect_hardware(context.environment);
  complete_settings(result.settings, result.hardware, context.environment);
  return result;
}

namespace {

std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = ::popen(command.c_str(), "r");
  char buffer[4096];
  std::size_t got = 0;
  while (pipe != nullptr && text.size() < 65536 &&
         (got = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0) {
    text.append(buffer, got);
  }
  if (pipe != nullptr) {
    ::pclose(pipe);
  }
  return text;
}

}  // namespace

void use_mpirun(
    Settings& settings,
    std::vector<std::string>& words,
    const Environment& environment) {
  if (!settings.has("mpirun_hostfile")) {
    return;
  }
  MpirunOptions options;
  options.hostfile =
      expand_home(settings.text("mpirun_hostfile"), environment).string();
  const std::string hosts = read_file(options.hostfile, std::size_t{1} << 20);
  options.mpirun = find_program(Settings(), {"mpirun"}, environment).words[0];
  options.family =
      mpi_family(output_of(shell_quote(options.mpirun) + " --version 2>&1"));
  options.num_processes = settings.integer("num_processes");
  options.num_machines = settings.integer("num_machines");
  RuntimeFacts facts;
  for (const auto& [name, value] :
       worker_variables(settings, environment, facts, 0, true)) {
    const bool is_setting = name.starts_with("ACCELERATE_") ||
                            name == "OMP_NUM_THREADS" ||
                            name == "CUDA_VISIBLE_DEVICES";
    if (is_setting && name.find("STORE") == std::string::npos &&
        name != "ACCELERATE_LAUNCH_ID" && name != "ACCELERATE_RESTART_COUNT" &&
        name != "ACCELERATE_PROGRESS_FILE") {
      options.variables[name] = value;
    }
  }
  options.variables["MASTER_ADDR"] =
      options.num_machines == 1 ? "127.0.0.1" : first_mpi_host(hosts);
  options.variables["MASTER_PORT"] =
      settings.has("main_process_port") &&
              settings.integer("main_process_port") > 0
          ? settings.text("main_process_port")
          : "29500";
  options.words = words;
  words = mpirun_words(options);
  const Origin origin = settings.origin("mpirun_hostfile");
  settings.set("num_processes", 1, origin);
  settings.set("num_machines", 1, origin);
}

}  // namespace accelerate
