// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/mpirun_job.h"

#include <cstdint>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "config/user_folders.h"
#include "launch/mpirun.h"
#include "launch/program.h"
#include "launch/program_output.h"

namespace accelerate {
namespace {

// Rejects flags for tasks that `mpirun` performs. Only flags are rejected: a
// configuration file may contain these settings for other launches.
void check_launcher_flags(const Settings& settings) {
  for (const char* name :
       {"enable_cpu_affinity",
        "machine_rank",
        "same_network",
        "rdzv_backend",
        "rdzv_conf",
        "rdzv_timeout",
        "job_secret_file"}) {
    if (settings.is_from_command_line(name)) {
      throw ConfigError(
          str_cat(
              settings.origin(name).where,
              " has no effect with `mpirun_hostfile` (",
              settings.origin("mpirun_hostfile").text(),
              "): `mpirun` places and connects the processes"),
          str_cat(
              "remove `",
              settings.origin(name).where,
              "` or `mpirun_hostfile`"));
    }
  }
}

// Returns the worker variables that are specific neither to the launcher's
// store nor to a rank.
std::map<std::string, std::string> shared_variables(const LaunchPlan& plan) {
  const Settings& settings = plan.settings;
  Generation generation;
  generation.shape = JobShape::of(settings);
  std::map<std::string, std::string> result;
  for (const auto& [name, value] : worker_variables(plan, generation, 0)) {
    const bool is_setting =
        name.starts_with("ACCELERATE_") || name.ends_with("_DISABLE") ||
        name == "OMP_NUM_THREADS" || name == "CUDA_VISIBLE_DEVICES" ||
        (name == "ROLE_NAME" && settings.is_set_by_user("role"));
    if (is_setting && name.find("STORE") == std::string::npos &&
        name != "ACCELERATE_LAUNCH_ID" && name != "ACCELERATE_RESTART_COUNT" &&
        name != "ACCELERATE_PROGRESS_FILE") {
      result[name] = value;
    }
  }
  return result;
}

std::string main_address(
    const Settings& settings, const std::string& hostfile_text) {
  if (settings.integer("num_machines") == 1) {
    return "127.0.0.1";
  }
  return settings.has("main_process_ip") ? settings.text("main_process_ip")
                                         : first_hostfile_node(hostfile_text);
}

bool has_port(const Settings& settings) {
  return settings.has("main_process_port") &&
         settings.integer("main_process_port") > 0;
}

std::string main_port(const Settings& settings, const std::string& free_port) {
  if (has_port(settings)) {
    return settings.text("main_process_port");
  }
  return settings.integer("num_machines") == 1 ? free_port : "29500";
}

}  // namespace

bool needs_free_mpirun_port(const Settings& settings) {
  return settings.has("mpirun_hostfile") && !has_port(settings) &&
         settings.integer("num_machines") == 1;
}

void use_mpirun(LaunchPlan& plan, const std::string& free_port) {
  Settings& settings = plan.settings;
  if (!settings.has("mpirun_hostfile")) {
    return;
  }
  check_launcher_flags(settings);
  MpirunOptions options;
  options.hostfile =
      expand_home(settings.text("mpirun_hostfile"), plan.environment).string();
  const std::string hostfile_text =
      read_file(options.hostfile, std::size_t{1} << 20);
  options.mpirun =
      find_program(Settings(), {"mpirun"}, plan.environment).argv[0];
  options.family = mpi_family(program_output({options.mpirun, "--version"}));
  options.num_processes = settings.integer("num_processes");
  options.num_machines = settings.integer("num_machines");
  options.variables = shared_variables(plan);
  options.variables["MASTER_ADDR"] = main_address(settings, hostfile_text);
  options.variables["MASTER_PORT"] = main_port(settings, free_port);
  options.program_argv = plan.argv;
  plan.argv = mpirun_argv(options);
  const Origin origin = settings.origin("mpirun_hostfile");
  settings.set("num_processes", 1, origin);
  settings.set("num_machines", 1, origin);
  settings.set("machine_rank", 0, origin);
  // Do not bind `mpirun` itself to cores.
  settings.set("enable_cpu_affinity", false, origin);
}

}  // namespace accelerate
