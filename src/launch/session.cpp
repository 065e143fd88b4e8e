// SPDX-License-Identifier: Apache-2.0
#include "launch/session.h"

#include <cerrno>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/hmac.h"
#include "base/progress_file.h"
#include "base/str_cat.h"
#include "config/user_folders.h"
#include "launch/guardian.h"
#include "launch/interruptible_rendezvous.h"
#include "launch/launch_directory.h"
#include "launch/output.h"
#include "launch/signal_queue.h"
#include "launch/signals.h"
#include "launch/slurm.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

std::string timestamp() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H-%M-%S", &local);
  return text;
}

// Creates a new folder for each run, even if two runs start in the same second.
std::string make_log_folder(
    const Settings& settings, const Environment& environment) {
  const bool writes_none = settings.has("tee") && settings.integer("tee") == 0;
  if (!settings.has("log_dir") || writes_none) {
    return {};
  }
  const fs::path base = expand_home(settings.text("log_dir"), environment);
  std::error_code error;
  fs::create_directories(base, error);
  const std::string name = timestamp();
  for (int attempt = 1; attempt < 1000; ++attempt) {
    const fs::path path =
        base / (attempt == 1 ? name : str_cat(name, "-", attempt));
    if (::mkdir(path.c_str(), 0777) == 0) {
      return path;
    }
    if (errno != EEXIST) {
      throw_errno("create", path, errno);
    }
  }
  throw_errno("create", base / name, EEXIST);
}

LaunchPlan with_files(LaunchPlan plan, const std::string& folder) {
  plan.launch_id = to_hex(random_bytes(8));
  plan.files = {folder, make_log_folder(plan.settings, plan.environment)};
  return plan;
}

OutputOptions output_options(const LaunchPlan& plan) {
  const Settings& settings = plan.settings;
  OutputOptions options;
  options.num_ranks = JobShape::of(settings).local_processes;
  options.log_folder = plan.files.log_folder;
  if (settings.has("tee")) {
    options.log_out = (settings.integer("tee") & 1) != 0;
    options.log_err = (settings.integer("tee") & 2) != 0;
  }
  return options;
}

SupervisorOptions supervisor_options(
    const LaunchPlan& plan, const Generation& generation) {
  using Seconds = std::chrono::duration<double>;
  SupervisorOptions options;
  options.shape = generation.shape;
  options.stop_timeout = Seconds(plan.settings.real("stop_timeout"));
  options.grace_period = Seconds(plan.settings.real("grace_period"));
  options.monitor_interval = Seconds(plan.settings.real("monitor_interval"));
  options.hostname = plan.hardware.hostname;
  return options;
}

// The workers of the previous generation may have written to these files.
void reset_files(const std::vector<WorkerCommand>& commands) {
  for (const WorkerCommand& command : commands) {
    ::unlink(command.error_file.c_str());
    create_progress_file(command.progress_file);
  }
}

void print_environments(
    const LaunchPlan& plan, const Generation& generation, Output& output) {
  const JobShape& shape = generation.shape;
  for (std::int64_t local = 0; local < shape.local_processes; ++local) {
    std::string text =
        str_cat("environment of rank ", shape.first_rank + local, ":");
    for (const auto& [name, value] :
         worker_variables(plan, generation, local)) {
      const bool is_secret = name == "ACCELERATE_STORE_SECRET";
      text += str_cat("\n  ", name, "=", is_secret ? "(hidden)" : value);
    }
    output.announce(text);
  }
}

RunResult with_lost_output(RunResult result, const Output& output) {
  result.lost_output = output.lost();
  return result;
}

bool may_restart(
    const LaunchPlan& plan,
    const Generation& generation,
    const RunResult& result) {
  // A machine that disconnected cannot join the restart.
  return result.failure && !result.was_interrupted &&
         !result.failure->is_preemption() &&
         generation.number < plan.settings.integer("max_restarts") &&
         result.failure->disconnected_machine.empty();
}

std::string restart_text(
    const LaunchPlan& plan,
    const Generation& generation,
    const Failure& failure) {
  const std::int64_t workers = generation.shape.num_processes;
  return str_cat(
      "warning: rank ",
      failure.rank,
      " ",
      describe_exit(failure.exit_code, failure.signal),
      "; restarting ",
      workers == 1 ? std::string("the worker")
                   : str_cat("all ", workers, " workers"),
      " (restart ",
      generation.number + 1,
      " of ",
      plan.settings.integer("max_restarts"),
      ")",
      failure.exception.empty() ? "" : "\n",
      failure.exception);
}

// Must be called before the connections to the other machines are closed,
// because a batch system may kill this launcher when other launchers exit. An
// empty line separates the report from the workers' output, even after an
// unfinished line.
void print_failure(std::string text, Output& output) {
  if (text.ends_with('\n')) {
    text.pop_back();
  }
  if (!text.empty()) {
    output.announce_report("\n" + text);
    output.drain();
  }
}

// If a process of a Slurm step was killed, `srun` stops reading output when the
// last process of the step ends. Output that is still on its way to `srun` is
// lost, and nothing tells this process that its output has arrived.
void wait_for_srun(const LaunchPlan& plan, const Failure& failure) {
  constexpr std::chrono::seconds kEnough{1};
  if (!failure.disconnected_machine.empty() &&
      step_of_machines(plan.settings, plan.environment)) {
    std::this_thread::sleep_for(kEnough);
  }
}

}  // namespace

RunResult run_session(
    const LaunchPlan& requested, const LaunchMessages& messages) {
  const LaunchDirectory directory(requested.environment);
  const LaunchPlan plan = with_files(requested, directory.path());
  // Created before any thread.
  Guardian guardian(plan.launch_id, plan.files.folder);
  const auto control_plane = open_control_plane(plan, messages);
  SignalQueue signals;
  Output output(output_options(plan));
  const SupervisorContext context{*control_plane, guardian, output, signals};
  const bool one_machine = JobShape::of(plan.settings).num_machines == 1;
  for (std::int64_t number = 0;; ++number) {
    InterruptibleRendezvous rendezvous(*control_plane, output, signals);
    const auto generation = one_machine
                                ? control_plane->start_generation(number)
                                : rendezvous.run(number);
    if (!generation) {
      return {128 + rendezvous.interrupt(), std::nullopt, true};
    }
    const auto commands = make_worker_commands(plan, *generation);
    reset_files(commands);
    if (plan.settings.flag("debug") && number == 0) {
      print_environments(plan, *generation, output);
    }
    const RunResult result = with_lost_output(
        supervise(commands, supervisor_options(plan, *generation), context),
        output);
    if (!may_restart(plan, *generation, result)) {
      if (result.failure && messages.failure_text) {
        print_failure(messages.failure_text(*result.failure), output);
        wait_for_srun(plan, *result.failure);
      }
      return result;
    }
    output.announce(restart_text(plan, *generation, *result.failure));
  }
}

}  // namespace accelerate
