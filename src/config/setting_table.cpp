// SPDX-License-Identifier: Apache-2.0
// The table of settings. To add a setting, add an entry here.
#include "config/setting.h"

namespace accelerate {
namespace {

using enum SettingType;

std::vector<Setting> general_settings() {
  constexpr auto group = SettingGroup::general;
  return {
      {.name = "config_file",
       .flag = "config_file",
       .default_note = "default_config.yaml in the cache folder, if it exists",
       .value_name = "PATH",
       .help = "Read this configuration file instead of the default one.",
       .group = group},
      {.name = "quiet",
       .flag = "quiet",
       .letter = "q",
       .type = boolean,
       .default_text = "false",
       .help = "Print only errors and the program's own output.",
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
       .help = "Run the program directly, whatever its file extension.",
       .group = group},
      {.name = "debug",
       .flag = "debug",
       .variable = "ACCELERATE_DEBUG_MODE",
       .type = boolean,
       .default_text = "false",
       .help = "Throw an error if the loss is not finite, and print the "
               "environment "
               "of each worker.",
       .group = group,
       .file = SettingFile::python},
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
       .file = SettingFile::python},
      {.name = "distributed_type",
       .type = choice,
       .default_note =
           "derived from the number of processes and the devices found",
       .choices = {"NO", "MULTI_CPU", "MULTI_GPU"},
       .help = "Train with one process, with several on the CPU, or with "
               "several on GPUs.",
       .group = group,
       .file = SettingFile::python},
      {.name = "use_cpu",
       .flag = "cpu",
       .variable = "ACCELERATE_USE_CPU",
       .type = boolean,
       .default_text = "false",
       .help = "Train on the CPU with `--num_processes` processes.",
       .group = group,
       .file = SettingFile::python},
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
       .help = "GPUs to use on this machine: `all`, or a comma-separated "
               "list (0,1).",
       .group = group,
       .file = SettingFile::python},
      {.name = "ranks_per_gpu",
       .flag = "ranks_per_gpu",
       .variable = "ACCELERATE_RANKS_PER_GPU",
       .type = integer,
       .default_text = "1",
       .minimum = 1,
       .maximum = 64,
       .value_name = "N",
       .help = "Processes on each GPU, for tests of programs that use several "
               "GPUs. Slow: NCCL then uses sockets.",
       .group = group},
  };
}

std::vector<Setting> resource_settings() {
  constexpr auto group = SettingGroup::resources;
  return {
      {.name = "num_processes",
       .flag = "num_processes",
       .type = integer,
       .default_note = "one per GPU found, 1 without a GPU",
       .minimum = 1,
       .maximum = 65536,
       .value_name = "N",
       .help = "Total number of processes on all machines.",
       .group = group,
       .file = SettingFile::python},
      {.name = "mixed_precision",
       .flag = "mixed_precision",
       .variable = "ACCELERATE_MIXED_PRECISION",
       .type = choice,
       .default_text = "no",
       .choices = {"no", "fp16", "bf16"},
       .value_name = "TYPE",
       .help = "Compute in this data type; weights stay in fp32.",
       .group = group,
       .file = SettingFile::python},
      {.name = "gradient_accumulation_steps",
       .flag = "gradient_accumulation_steps",
       .variable = "ACCELERATE_GRADIENT_ACCUMULATION_STEPS",
       .type = integer,
       .default_note = "the program's value, else 1",
       .minimum = 1,
       .maximum = 1000000,
       .value_name = "N",
       .help = "Batches to accumulate before each optimizer step.",
       .group = group,
       .file = SettingFile::cpp},
      {.name = "num_cpu_threads_per_process",
       .flag = "num_cpu_threads_per_process",
       .variable = "OMP_NUM_THREADS",
       .type = integer,
       .default_note = "the cores of this machine divided by its processes",
       .minimum = 1,
       .maximum = 65536,
       .value_name = "N",
       .help = "CPU threads per process.",
       .group = group,
       .file = SettingFile::cpp},
      {.name = "enable_cpu_affinity",
       .flag = "enable_cpu_affinity",
       .variable = "ACCELERATE_CPU_AFFINITY",
       .type = boolean,
       .default_text = "false",
       .help =
           "Bind each process to its own cores, near its GPU if it has one.",
       .group = group,
       .file = SettingFile::python},
  };
}

std::vector<Setting> machine_settings() {
  constexpr auto group = SettingGroup::machines;
  return {
      {.name = "num_machines",
       .flag = "num_machines",
       .type = integer,
       .default_text = "1",
       .minimum = 1,
       .maximum = 65536,
       .value_name = "N",
       .help =
           "Number of machines that train together; run the same command on "
           "each.",
       .group = group,
       .file = SettingFile::python},
      {.name = "machine_rank",
       .flag = "machine_rank",
       .type = integer,
       .default_text = "0",
       .minimum = 0,
       .maximum = 65535,
       .value_name = "N",
       .help = "Rank of this machine, counting from 0; set automatically under "
               "Slurm.",
       .group = group,
       .file = SettingFile::python},
      {.name = "main_process_ip",
       .flag = "main_process_ip",
       .default_note = "required for multi-machine jobs, except under Slurm",
       .value_name = "ADDRESS",
       .help = "Address of machine 0.",
       .group = group,
       .file = SettingFile::python},
      {.name = "main_process_port",
       .flag = "main_process_port",
       .type = integer,
       .default_note = "a free port if the job runs on a single machine, "
                       "29500 for multi-machine jobs",
       .minimum = 0,
       .maximum = 65535,
       .value_name = "PORT",
       .help = "Port on machine 0; 0 picks a free one.",
       .group = group,
       .file = SettingFile::python},
      {.name = "same_network",
       .flag = "same_network",
       .type = boolean,
       .default_text = "true",
       .help =
           "The machines are on one network; if false, workers reach machine "
           "0 by its hostname.",
       .group = group,
       .file = SettingFile::python},
      {.name = "rdzv_backend",
       .flag = "rdzv_backend",
       .type = choice,
       .default_text = "static",
       .choices = {"static", "c10d"},
       .value_name = "NAME",
       .help =
           "`static`: you set each machine's rank; `c10d`: machines get ranks "
           "in the order in which they join.",
       .group = group,
       .file = SettingFile::python},
      {.name = "rdzv_conf",
       .flag = "rdzv_conf",
       .value_name = "KEY=VALUE,…",
       .help = "Rendezvous options; the only one is `timeout` (seconds).",
       .group = group},
      {.name = "rdzv_timeout",
       .flag = "rdzv_timeout",
       .type = integer,
       .default_text = "300",
       .minimum = 1,
       .maximum = 86400,
       .value_name = "SECONDS",
       .help = "How long machines wait for each other.",
       .group = group,
       .file = SettingFile::cpp},
      {.name = "job_secret_file",
       .flag = "job_secret_file",
       .default_note = "`job_secret` next to the default configuration file, "
                       "created if missing",
       .value_name = "PATH",
       .help =
           "File (mode 0600) with the secret that authenticates machines to "
           "each other; ACCELERATE_JOB_SECRET overrides it.",
       .group = group,
       .file = SettingFile::cpp},
      {.name = "mpirun_hostfile",
       .flag = "mpirun_hostfile",
       .section = "mpirun_config",
       .value_name = "PATH",
       .help = "Start the processes with `mpirun` on the machines in this "
               "hostfile.",
       .group = group,
       .file = SettingFile::python},
  };
}

std::vector<Setting> output_settings() {
  constexpr auto group = SettingGroup::output;
  return {
      {.name = "log_dir",
       .flag = "log_dir",
       .value_name = "DIR",
       .help = "Also write the output of each rank to files in this folder.",
       .group = group,
       .file = SettingFile::cpp},
      {.name = "tee",
       .flag = "tee",
       .letter = "t",
       .type = integer,
       .default_note = "3 with `--log_dir`",
       .minimum = 0,
       .maximum = 3,
       .value_name = "N",
       .help = "Streams to write to `--log_dir`: 0 none, 1 stdout, 2 stderr, 3 "
               "both.",
       .group = group,
       .file = SettingFile::cpp},
      {.name = "role",
       .flag = "role",
       .default_text = "default",
       .value_name = "NAME",
       .help = "Value of ROLE_NAME for the workers.",
       .group = group,
       .file = SettingFile::cpp},
  };
}

std::vector<Setting> failure_settings() {
  constexpr auto group = SettingGroup::failures;
  return {
      {.name = "max_restarts",
       .flag = "max_restarts",
       .type = integer,
       .default_text = "0",
       .minimum = 0,
       .maximum = 1000000,
       .value_name = "N",
       .help = "How many times to restart all workers after a failure.",
       .group = group,
       .file = SettingFile::cpp},
      {.name = "monitor_interval",
       .flag = "monitor_interval",
       .type = real,
       .default_text = "0.1",
       .minimum = 0,
       .maximum = 3600,
       .value_name = "SECONDS",
       .help = "Maximum time between checks of the workers; an exit is noticed "
               "immediately.",
       .group = group,
       .file = SettingFile::cpp},
      {.name = "stop_timeout",
       .flag = "stop_timeout",
       .type = real,
       .default_text = "10",
       .minimum = 0,
       .maximum = 3600,
       .value_name = "SECONDS",
       .help =
           "Time between SIGTERM and SIGKILL when workers are stopped after a "
           "failure.",
       .group = group,
       .file = SettingFile::cpp},
      {.name = "grace_period",
       .flag = "grace_period",
       .type = real,
       .default_text = "30",
       .minimum = 0,
       .maximum = 86400,
       .value_name = "SECONDS",
       .help = "Time for workers to save and exit after the launcher is "
               "interrupted (SIGTERM, SIGINT, SIGHUP); then they get "
               "SIGKILL.",
       .group = group,
       .file = SettingFile::cpp},
  };
}

std::vector<Setting> build_settings() {
  constexpr auto group = SettingGroup::build;
  return {
      {.name = "cxx",
       .flag = "cxx",
       .variable = "ACCELERATE_CXX",
       .default_note = "this installation's compiler",
       .value_name = "COMPILER",
       .help = "Compiler for a program that is a single .cpp file.",
       .group = group,
       .file = SettingFile::cpp,
       .chooses_program = true},
      {.name = "cxx_flags",
       .flag = "cxx_flags",
       .variable = "ACCELERATE_CXX_FLAGS",
       .value_name = "FLAGS",
       .help = "Additional compiler flags, separated by spaces.",
       .group = group,
       .file = SettingFile::cpp,
       .chooses_program = true},
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
