// SPDX-License-Identifier: Apache-2.0
// The table itself. A new setting is one entry here.
#include "config/setting.h"

namespace accelerate {
namespace {

using enum SettingType;

std::vector<Setting> general_settings() {
  constexpr auto group = SettingGroup::general;
  return {
      {.name = "config_file",
       .flag = "config_file",
       .default_note =
           "default_config.yaml in the cache folder, if it is there",
       .value_name = "PATH",
       .help = "Read this configuration file instead of the default one.",
       .group = group},
      {.name = "quiet",
       .flag = "quiet",
       .letter = "q",
       .type = boolean,
       .default_text = "false",
       .help = "Print nothing but errors and what the program prints.",
       .group = group},
      {.name = "module",
       .flag = "module",
       .letter = "m",
       .type = boolean,
       .default_text = "false",
       .help = "Run the program as a Python module, like `python3 -m`.",
       .group = group},
      {.name = "no_python",
       .flag = "no_python",
       .type = boolean,
       .default_text = "false",
       .help = "Run the program as it is, whatever its name ends in.",
       .group = group},
      {.name = "debug",
       .flag = "debug",
       .variable = "ACCELERATE_DEBUG_MODE",
       .type = boolean,
       .default_text = "false",
       .help = "Throw when a loss is not finite, and print the environment of "
               "each worker.",
       .group = group,
       .file = SettingFile::peer},
  };
}

std::vector<Setting> hardware_settings() {
  constexpr auto group = SettingGroup::hardware;
  return {
      {.name = "compute_environment",
       .type = choice,
       .default_text = "LOCAL_MACHINE",
       .choices = {"LOCAL_MACHINE"},
       .help = "Where training runs.",
       .group = group,
       .file = SettingFile::peer},
      {.name = "distributed_type",
       .type = choice,
       .default_note = "from the number of processes and the devices found",
       .choices = {"NO", "MULTI_CPU", "MULTI_GPU"},
       .help = "How processes work together.",
       .group = group,
       .file = SettingFile::peer},
      {.name = "use_cpu",
       .flag = "cpu",
       .variable = "ACCELERATE_USE_CPU",
       .type = boolean,
       .default_text = "false",
       .help = "Train on the CPU, with `--num_processes` processes.",
       .group = group,
       .file = SettingFile::peer},
      {.name = "multi_gpu",
       .flag = "multi_gpu",
       .type = boolean,
       .default_text = "false",
       .help = "Train on several GPUs.",
       .group = group},
      {.name = "gpu_ids",
       .flag = "gpu_ids",
       .default_text = "all",
       .value_name = "IDS",
       .help =
           "Which GPUs of this machine to use: `all`, or numbers with commas "
           "(0,1).",
       .group = group,
       .file = SettingFile::peer},
  };
}

std::vector<Setting> resource_settings() {
  constexpr auto group = SettingGroup::resources;
  return {
      {.name = "num_processes",
       .flag = "num_processes",
       .type = integer,
       .default_note = "one per GPU found, one without a GPU",
       .least = 1,
       .most = 65536,
       .value_name = "N",
       .help = "Processes in total, over all machines.",
       .group = group,
       .file = SettingFile::peer},
      {.name = "mixed_precision",
       .flag = "mixed_precision",
       .variable = "ACCELERATE_MIXED_PRECISION",
       .type = choice,
       .default_text = "no",
       .choices = {"no", "fp16", "bf16"},
       .value_name = "TYPE",
       .help = "Compute in this type and keep weights in fp32.",
       .group = group,
       .file = SettingFile::peer},
      {.name = "gradient_accumulation_steps",
       .flag = "gradient_accumulation_steps",
       .variable = "ACCELERATE_GRADIENT_ACCUMULATION_STEPS",
       .type = integer,
       .default_note = "what the program says, else 1",
       .least = 1,
       .most = 1000000,
       .value_name = "N",
       .help = "Batches per optimizer step.",
       .group = group,
       .file = SettingFile::own},
      {.name = "num_cpu_threads_per_process",
       .flag = "num_cpu_threads_per_process",
       .variable = "OMP_NUM_THREADS",
       .type = integer,
       .default_note = "the cores of this machine divided by its processes",
       .least = 1,
       .most = 65536,
       .value_name = "N",
       .help = "Threads each process computes with.",
       .group = group,
       .file = SettingFile::own},
      {.name = "enable_cpu_affinity",
       .flag = "enable_cpu_affinity",
       .variable = "ACCELERATE_CPU_AFFINITY",
       .type = boolean,
       .default_text = "false",
       .help =
           "Give each process its own cores, near its GPU where there is one.",
       .group = group,
       .file = SettingFile::peer},
  };
}

std::vector<Setting> machine_settings() {
  constexpr auto group = SettingGroup::machines;
  return {
      {.name = "num_machines",
       .flag = "num_machines",
       .type = integer,
       .default_text = "1",
       .least = 1,
       .most = 65536,
       .value_name = "N",
       .help = "Machines that train together; the same command runs on each.",
       .group = group,
       .file = SettingFile::peer},
      {.name = "machine_rank",
       .flag = "machine_rank",
       .type = integer,
       .default_text = "0",
       .least = 0,
       .most = 65535,
       .value_name = "N",
       .help = "Which machine this is, from 0. Slurm is asked by itself.",
       .group = group,
       .file = SettingFile::peer},
      {.name = "main_process_ip",
       .flag = "main_process_ip",
       .default_note = "needed with several machines, unless under Slurm",
       .value_name = "ADDRESS",
       .help = "Address of machine 0.",
       .group = group,
       .file = SettingFile::peer},
      {.name = "main_process_port",
       .flag = "main_process_port",
       .type = integer,
       .default_note = "any free one on one machine, 29500 on several",
       .least = 0,
       .most = 65535,
       .value_name = "PORT",
       .help = "Port on machine 0; 0 takes a free one.",
       .group = group,
       .file = SettingFile::peer},
      {.name = "same_network",
       .flag = "same_network",
       .type = boolean,
       .default_text = "true",
       .help = "The machines reach each other at their own addresses.",
       .group = group,
       .file = SettingFile::peer},
      {.name = "rdzv_backend",
       .flag = "rdzv_backend",
       .type = choice,
       .default_text = "static",
       .choices = {"static", "c10d"},
       .value_name = "NAME",
       .help =
           "`static`: each machine knows its rank; `c10d`: ranks are given in "
           "the order of arrival.",
       .group = group,
       .file = SettingFile::peer},
      {.name = "rdzv_conf",
       .flag = "rdzv_conf",
       .value_name = "KEY=VALUE,…",
       .help = "Rendezvous options; `timeout` (seconds) is the one there is.",
       .group = group},
      {.name = "rdzv_timeout",
       .flag = "rdzv_timeout",
       .type = integer,
       .default_text = "300",
       .least = 1,
       .most = 86400,
       .value_name = "SECONDS",
       .help = "How long machines wait for each other.",
       .group = group,
       .file = SettingFile::own},
      {.name = "job_secret_file",
       .flag = "job_secret_file",
       .default_note = "`job_secret` beside the configuration file, made when "
                       "missing",
       .value_name = "PATH",
       .help = "File (mode 0600) with the secret machines prove to each other; "
               "ACCELERATE_JOB_SECRET goes first.",
       .group = group,
       .file = SettingFile::own},
      {.name = "mpirun_hostfile",
       .flag = "mpirun_hostfile",
       .section = "mpirun_config",
       .value_name = "PATH",
       .help =
           "Start the processes through `mpirun` on the hosts of this file.",
       .group = group,
       .file = SettingFile::peer},
  };
}

std::vector<Setting> output_settings() {
  constexpr auto group = SettingGroup::output;
  return {
      {.name = "log_dir",
       .flag = "log_dir",
       .value_name = "DIR",
       .help = "Keep what each rank prints in files under this folder, too.",
       .group = group,
       .file = SettingFile::own},
      {.name = "tee",
       .flag = "tee",
       .letter = "t",
       .type = integer,
       .default_note = "3 with `--log_dir`",
       .least = 0,
       .most = 3,
       .value_name = "N",
       .help = "Which streams `--log_dir` keeps: 1 stdout, 2 stderr, 3 both.",
       .group = group,
       .file = SettingFile::own},
      {.name = "role",
       .flag = "role",
       .default_text = "default",
       .value_name = "NAME",
       .help = "Value of ROLE_NAME for the workers.",
       .group = group,
       .file = SettingFile::own},
  };
}

std::vector<Setting> failure_settings() {
  constexpr auto group = SettingGroup::failures;
  return {
      {.name = "max_restarts",
       .flag = "max_restarts",
       .type = integer,
       .default_text = "0",
       .least = 0,
       .most = 1000000,
       .value_name = "N",
       .help = "How often all workers are started again after a failure.",
       .group = group,
       .file = SettingFile::own},
      {.name = "monitor_interval",
       .flag = "monitor_interval",
       .type = real,
       .default_text = "0.1",
       .least = 0,
       .most = 3600,
       .value_name = "SECONDS",
       .help =
           "Longest time between two looks at the workers; one that ends is "
           "noticed at once.",
       .group = group,
       .file = SettingFile::own},
      {.name = "stop_timeout",
       .flag = "stop_timeout",
       .type = real,
       .default_text = "10",
       .least = 0,
       .most = 3600,
       .value_name = "SECONDS",
       .help =
           "Time between SIGTERM and SIGKILL when workers are stopped after a "
           "failure.",
       .group = group,
       .file = SettingFile::own},
      {.name = "grace_period",
       .flag = "grace_period",
       .type = real,
       .default_text = "30",
       .least = 0,
       .most = 86400,
       .value_name = "SECONDS",
       .help = "Time workers have to save and end, after the launcher was "
               "interrupted (SIGTERM, SIGINT, SIGHUP), before SIGKILL.",
       .group = group,
       .file = SettingFile::own},
  };
}

std::vector<Setting> build_settings() {
  constexpr auto group = SettingGroup::build;
  return {
      {.name = "cxx",
       .flag = "cxx",
       .variable = "ACCELERATE_CXX",
       .default_note = "the compiler of this installation",
       .value_name = "COMPILER",
       .help = "Compiler for a program that is a single .cpp file.",
       .group = group,
       .file = SettingFile::own},
      {.name = "cxx_flags",
       .flag = "cxx_flags",
       .variable = "ACCELERATE_CXX_FLAGS",
       .value_name = "FLAGS",
       .help = "More flags for that compiler, separated by spaces.",
       .group = group,
       .file = SettingFile::own},
  };
}

std::vector<Setting> build_table() {
  std::vector<Setting> all;
  for (auto* part :
       {general_settings,
        hardware_settings,
        resource_settings,
        machine_settings,
        output_settings,
        failure_settings,
        build_settings}) {
    for (Setting& setting : part()) {
      all.push_back(std::move(setting));
    }
  }
  return all;
}

}  // namespace

const std::vector<Setting>& all_settings() {
  static const std::vector<Setting> all = build_table();
  return all;
}

}  // namespace accelerate
