// SPDX-License-Identifier: Apache-2.0
#include "launch/slurm.h"

#include <cstdint>
#include <string>
#include <vector>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

Origin found(std::string description) {
  return {Origin::Kind::found, std::move(description)};
}

// In a file for one machine, the number of processes is the number per machine,
// so it is multiplied by the number of nodes.
void multiply_processes(
    Settings& settings, std::int64_t nodes, const char* variable) {
  const auto kind = settings.origin("num_processes").kind;
  if (kind != Origin::Kind::file) {
    return;
  }
  const std::int64_t per_machine = settings.integer("num_processes");
  settings.set(
      "num_processes",
      per_machine * nodes,
      found(str_cat(
          per_machine,
          " per machine (",
          settings.origin("num_processes").text(),
          "), ",
          nodes,
          " nodes (",
          variable,
          ")")));
  // "NO" was correct only for a single process.
  if (settings.origin("distributed_type").kind == Origin::Kind::file &&
      settings.text("distributed_type") == "NO") {
    settings.set("distributed_type", Json(), Origin());
  }
}

// The machines are Slurm's nodes. `config default` writes `num_machines: 1` to
// every file, so that value does not express the user's choice.
void apply_nodes(Settings& settings, std::int64_t nodes, const char* variable) {
  const std::int64_t machines = settings.integer("num_machines");
  const bool set_by_user = settings.is_set_by_user("num_machines");
  if (set_by_user && machines != 1) {
    if (machines != nodes) {
      throw ConfigError(
          str_cat(
              "`num_machines` is ",
              machines,
              " (",
              settings.origin("num_machines").text(),
              "), but Slurm provides ",
              nodes,
              " nodes (",
              variable,
              ")"),
          "remove `num_machines`, or pass `--num_machines 1` to use only this "
          "node");
    }
    return;
  }
  if (set_by_user) {
    multiply_processes(settings, nodes, variable);
  }
  settings.set("num_machines", nodes, found(variable));
}

// Throws if `name` is not set although `srun` started this process.
std::string required(const Environment& environment, const char* name) {
  const auto value = environment.get(name);
  if (!value) {
    throw ConfigError(
        str_cat(
            "environment variable SLURM_STEP_ID is `",
            environment.get("SLURM_STEP_ID").value_or(""),
            "`, but ",
            name,
            " is not set"),
        "start the launcher with `srun`, which sets both variables; if it "
        "runs in a container, pass all variables that begin with SLURM_ into "
        "the container");
  }
  return *value;
}

std::int64_t required_number(
    const Environment& environment, const char* name, std::int64_t minimum) {
  (void)required(environment, name);
  return *environment.get_integer(name, minimum);
}

std::int64_t nodes_of_step(const Environment& environment) {
  return required_number(environment, "SLURM_STEP_NUM_NODES", 1);
}

std::vector<std::string> nodes_of_this_step(
    const Environment& environment, std::int64_t nodes) {
  constexpr const char* kName = "SLURM_STEP_NODELIST";
  const std::string text = required(environment, kName);
  auto list = expand_node_list(kName, text);
  if (static_cast<std::int64_t>(list.size()) != nodes) {
    throw ConfigError(
        str_cat(
            "environment variable ",
            kName,
            " is `",
            text,
            "`, a list of ",
            list.size(),
            list.size() == 1 ? " node" : " nodes",
            ", but SLURM_STEP_NUM_NODES is `",
            nodes,
            "`"),
        "start the launcher with `srun`, which sets both variables");
  }
  return list;
}

std::int64_t node_index(const Environment& environment, std::int64_t nodes) {
  const auto node = required_number(environment, "SLURM_NODEID", 0);
  if (node >= nodes) {
    throw ConfigError(
        str_cat(
            "environment variable SLURM_NODEID is `",
            node,
            "`, but must be less than SLURM_STEP_NUM_NODES, which is `",
            nodes,
            "`"),
        "start the launcher with `srun`, which sets both variables");
  }
  return node;
}

bool stays_on_this_node(const Settings& settings) {
  return settings.is_from_command_line("num_machines") &&
         settings.integer("num_machines") == 1;
}

// `mpirun` runs in the batch script and places its processes on all nodes.
void apply_job_to_mpirun(Settings& settings, const Environment& environment) {
  const char* const number = "SLURM_JOB_NUM_NODES";
  const char* const list = "SLURM_JOB_NODELIST";
  const auto nodes = environment.get_integer(number, 1).value_or(1);
  if (nodes == 1) {
    return;
  }
  apply_nodes(settings, nodes, number);
  if (environment.has(list) && !settings.is_set_by_user("main_process_ip")) {
    settings.set(
        "main_process_ip",
        expand_node_list(list, *environment.get(list))[0],
        found(list));
  }
}

std::string srun_command(std::int64_t nodes) {
  return str_cat(
      "`srun --nodes ",
      nodes,
      " --ntasks ",
      nodes,
      " --ntasks-per-node 1 accelerate launch …`");
}

// Outside a step, Slurm starts no other launchers, so the job can have other
// machines only if the user sets the ranks of the machines.
void check_started_by_srun(
    const Settings& settings, const Environment& environment) {
  const auto nodes =
      environment.get_integer("SLURM_JOB_NUM_NODES", 1).value_or(1);
  if (!environment.has("SLURM_JOB_ID") || nodes == 1 ||
      settings.is_from_command_line("num_machines") ||
      settings.is_from_command_line("machine_rank")) {
    return;
  }
  throw ConfigError(
      str_cat(
          "this Slurm job has ",
          nodes,
          " nodes, but `srun` did not start this launcher, so it runs on only "
          "one node"),
      str_cat(
          "use ",
          srun_command(nodes),
          ", or add `--num_machines 1` to use only this node"));
}

void check_one_launcher_per_node(const Environment& environment) {
  const std::int64_t nodes = nodes_of_step(environment);
  const std::int64_t launchers =
      required_number(environment, "SLURM_STEP_NUM_TASKS", 1);
  if (launchers > nodes) {
    throw ConfigError(
        str_cat(
            "`srun` started ",
            launchers,
            " launchers on ",
            nodes,
            nodes == 1 ? " node" : " nodes",
            ", but each node needs only one launcher, which starts all workers "
            "on the node"),
        str_cat(
            "use ",
            srun_command(nodes),
            "; for launches that are independent of each other, add "
            "`--num_machines 1`"));
  }
}

}  // namespace

void apply_slurm(Settings& settings, const Environment& environment) {
  if (stays_on_this_node(settings)) {
    return;
  }
  if (settings.has("mpirun_hostfile")) {
    apply_job_to_mpirun(settings, environment);
    return;
  }
  if (!SlurmStep::of(environment)) {
    return;
  }
  const std::int64_t nodes = nodes_of_step(environment);
  if (nodes == 1) {
    return;
  }
  const std::int64_t node = node_index(environment, nodes);
  const auto list = nodes_of_this_step(environment, nodes);
  apply_nodes(settings, nodes, "SLURM_STEP_NUM_NODES");
  const auto put = [&](const char* name, Json value, const char* variable) {
    settings.set(name, std::move(value), found(variable));
  };
  // Every node reads the same file, so the rank in it is meaningless.
  if (!settings.is_from_command_line("machine_rank")) {
    put("machine_rank", node, "SLURM_NODEID");
  }
  if (!settings.is_set_by_user("main_process_ip")) {
    put("main_process_ip", list[0], "SLURM_STEP_NODELIST");
  }
}

void check_slurm_launch(
    const Settings& settings, const Environment& environment) {
  if (stays_on_this_node(settings) || settings.has("mpirun_hostfile")) {
    return;
  }
  if (!SlurmStep::of(environment)) {
    check_started_by_srun(settings, environment);
  } else {
    check_one_launcher_per_node(environment);
  }
}

std::optional<SlurmStep> step_of_machines(
    const Settings& settings, const Environment& environment) {
  const auto step = SlurmStep::of(environment);
  const auto nodes =
      environment.get_integer("SLURM_STEP_NUM_NODES", 1).value_or(1);
  return nodes > 1 && nodes == settings.integer("num_machines") ? step
                                                                : std::nullopt;
}

}  // namespace accelerate
