// SPDX-License-Identifier: Apache-2.0
// `accelerate launch`: runs a program in several processes.
#include "cli/commands/launch.h"

#include "accelerate/error.h"
#include "base/socket.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "cli/commands/launch_program.h"
#include "cli/commands/launch_settings.h"
#include "cli/commands/mpirun_job.h"
#include "launch/compile.h"
#include "launch/plan.h"
#include "launch/program.h"
#include "launch/session.h"
#include "launch/slurm.h"

namespace accelerate {
namespace {

// Reserves a free port if the job needs one.
ReservedPort mpirun_port(const Settings& settings) {
  return needs_free_mpirun_port(settings) ? reserve_port("127.0.0.1")
                                          : ReservedPort();
}

std::string names_of(const std::vector<std::filesystem::path>& files) {
  std::vector<std::string> names;
  for (const std::filesystem::path& file : files) {
    names.push_back(file.string());
  }
  return join(names, " and ");
}

// Slurm merges the output of all machines, so only machine 0 prints the full
// report. Machine 0 cannot report its own disconnection.
bool machine_0_reports(const LaunchPlan& plan, const Failure& failure) {
  return failure.disconnected_machine.empty() &&
         JobShape::of(plan.settings).machine_rank > 0 &&
         step_of_machines(plan.settings, plan.environment);
}

std::string failure_text(
    const LaunchPlan& plan, const Failure& failure, const Console& console) {
  if (machine_0_reports(plan, failure)) {
    return console.report_text(
        {.is_warning = failure.is_preemption(),
         .title = failure_title(failure) + "; see the report of machine 0"});
  }
  return console.report_text(
      {.is_warning = failure.is_preemption(),
       .title = failure_title(failure),
       .body = failure_body(failure),
       .hints = failure_hints(failure)});
}

}  // namespace

const CommandInfo& launch_info() {
  static const CommandInfo info = {
      .name = "launch",
      .summary = "Run a program on several processes, GPUs or machines.",
      .usage = "launch [options] <program> [arguments]",
      .options = launch_options(),
      .min_positional = 1,
      .runs_program = true,
      .notes =
          "<program> is an executable, a single .cpp file (compiled once "
          "and cached), a .py file or, with -m,\na Python module. Options "
          "come before the program. Ctrl-C stops all workers; press it "
          "twice to kill\nthem immediately. Ctrl-\\ shows what each worker "
          "is doing.",
      .examples =
          {"accelerate launch ./train --epochs 3",
           "accelerate launch --cpu --num_processes 4 train.cpp",
           "accelerate launch --num_machines 2 --machine_rank 0 "
           "--main_process_ip 10.0.0.1 ./train"},
  };
  return info;
}

int run_launch(const ParsedArgs& arguments, CommandContext& context) {
  LaunchSettings gathered = gather_settings(arguments, context);
  const Settings& settings = gathered.settings;
  Console& console = context.console;
  console.set_quiet(settings.flag("quiet"));
  Program program =
      find_program(settings, arguments.positional, context.environment);
  if (!gathered.files.empty()) {
    console.status(str_cat("Settings from ", names_of(gathered.files)));
  }
  if (gathered.files.empty() && !settings.is_set_by_user("num_processes")) {
    console.status(describe_choice(settings, gathered.hardware));
  }
  if (program.kind == Program::Kind::source) {
    program.argv[0] =
        compile_program(program.argv[0], compile_options(settings, context))
            .string();
  }
  LaunchPlan plan;
  plan.settings = settings;
  plan.hardware = gathered.hardware;
  plan.environment = context.environment;
  plan.argv = program.argv;
  plan.is_python = program.is_python();
  plan.version = version_text();
  if (settings.integer("num_machines") > 1) {
    plan.torch_version = installed_toolchain(context).torch_version;
  }
  const ReservedPort port = mpirun_port(settings);
  use_mpirun(plan, std::to_string(port.port));
  const LaunchMessages messages = {
      [&](const std::string& text) { console.status(text); },
      [&](const std::string& text) { console.warning(text); },
      [&](const Failure& failure) {
        return failure_text(plan, failure, console);
      }};
  const RunResult result = run_session(plan, messages);
  if (!result.failure && !result.lost_output.empty() && result.exit_code == 0) {
    throw IoError(
        str_cat(
            "the workers succeeded, but part of their output was lost: ",
            result.lost_output),
        "free space on that disk, or redirect the output to another disk");
  }
  return result.exit_code;
}

}  // namespace accelerate
