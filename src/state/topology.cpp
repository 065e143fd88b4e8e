// SPDX-License-Identifier: Apache-2.0
#include "state/topology.h"

#include <algorithm>
#include <array>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "config/slurm_step.h"

namespace accelerate {
namespace {

// The names of a launcher's environment variables; null if the launcher does
// not set such a variable.
struct VariableNames {
  Launcher launcher;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
  const char* node;
  const char* nodes;
};

constexpr std::array kVariableNames = {
    VariableNames{
        Launcher::torchrun,
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "GROUP_RANK",
        "GROUP_WORLD_SIZE"},
    VariableNames{
        Launcher::openmpi,
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        nullptr,
        nullptr},
    VariableNames{
        Launcher::mpich,
        "PMI_RANK",
        "PMI_SIZE",
        "MPI_LOCALRANKID",
        "MPI_LOCALNRANKS",
        nullptr,
        nullptr},
    VariableNames{
        Launcher::mvapich,
        "MV2_COMM_WORLD_RANK",
        "MV2_COMM_WORLD_SIZE",
        "MV2_COMM_WORLD_LOCAL_RANK",
        "MV2_COMM_WORLD_LOCAL_SIZE",
        nullptr,
        nullptr},
    VariableNames{
        Launcher::slurm,
        "SLURM_PROCID",
        "SLURM_STEP_NUM_TASKS",
        "SLURM_LOCALID",
        nullptr,
        "SLURM_NODEID",
        "SLURM_STEP_NUM_NODES"},
};

// The number of tasks on each node of a Slurm step: `2(x3),1`.
constexpr const char* kTasksPerNode = "SLURM_STEP_TASKS_PER_NODE";

[[noreturn]] void throw_half_set(
    const Environment& environment,
    const char* set,
    const char* unset,
    const std::string& hint) {
  throw ConfigError(
      str_cat(
          "environment variable ",
          set,
          " is `",
          environment.get(set).value_or(""),
          "`, but ",
          unset,
          " is not set"),
      hint);
}

class Reader {
 public:
  Reader(const Environment& environment, const VariableNames& names)
      : environment_(environment), names_(names) {}

  Topology read() const {
    Topology topology;
    topology.launcher = names_.launcher;
    topology.num_processes = required(names_.size, names_.rank, 1);
    topology.process_index = required(names_.rank, names_.size, 0);
    check_below(
        names_.rank,
        topology.process_index,
        topology.num_processes,
        names_.size);
    read_local(topology);
    read_nodes(topology);
    return topology;
  }

 private:
  std::optional<int> number(const char* name, int minimum) const {
    if (name == nullptr) {
      return std::nullopt;
    }
    const auto value = environment_.get_integer(name, minimum);
    return value ? std::optional<int>(static_cast<int>(*value)) : std::nullopt;
  }

  int required(const char* name, const char* partner, int minimum) const {
    const auto value = number(name, minimum);
    if (!value) {
      throw_half_set(
          environment_,
          partner,
          name,
          "set both variables, or neither for a single process; a launcher "
          "sets them");
    }
    return *value;
  }

  void check_below(
      const char* name, int value, int limit, const char* limit_name) const {
    if (value >= limit) {
      throw ConfigError(
          str_cat(
              "environment variable ",
              name,
              " is `",
              value,
              "`, but ",
              limit_name,
              " is `",
              environment_.get(limit_name).value_or(""),
              "`"),
          str_cat("set ", name, " to a number from 0 to ", limit - 1));
    }
  }

  void read_local(Topology& topology) const {
    const auto rank = number(names_.local_rank, 0);
    const auto size = local_size(topology);
    if (!rank && !size) {
      require_one_machine(topology);
      topology.local_process_index = topology.process_index;
      topology.local_num_processes = topology.num_processes;
      return;
    }
    if (!rank || !size) {
      throw_half_set(
          environment_,
          rank ? names_.local_rank : local_size_name(),
          rank ? local_size_name() : names_.local_rank,
          "set both variables, or neither when all processes are on one "
          "machine");
    }
    topology.local_process_index = *rank;
    topology.local_num_processes = *size;
    if (*size > topology.num_processes) {
      throw ConfigError(
          str_cat(
              "environment variable ",
              local_size_name(),
              " is `",
              *size,
              "`, but ",
              names_.size,
              " is `",
              topology.num_processes,
              "`"),
          str_cat(
              "set ",
              local_size_name(),
              " to the number of processes on this machine, and ",
              names_.size,
              " to the number on all machines"));
    }
    check_below(names_.local_rank, *rank, *size, local_size_name());
    check_local_rank(topology);
  }

  // Local ranks are numbered in the order of the global ranks.
  void check_local_rank(const Topology& topology) const {
    const int rank = topology.process_index;
    const int local_rank = topology.local_process_index;
    if (local_rank > rank) {
      throw ConfigError(
          str_cat(
              "environment variable ",
              names_.local_rank,
              " is `",
              local_rank,
              "`, but ",
              names_.rank,
              " is `",
              rank,
              "`"),
          str_cat(
              "set ",
              names_.local_rank,
              " to a number from 0 to ",
              rank,
              ": a local rank is never greater than the global rank"));
    }
    if (topology.local_num_processes == topology.num_processes &&
        local_rank != rank) {
      throw ConfigError(
          str_cat(
              "environment variable ",
              names_.local_rank,
              " is `",
              local_rank,
              "`, but ",
              names_.rank,
              " is `",
              rank,
              "`, and all ",
              topology.num_processes,
              " processes are on this machine"),
          str_cat(
              "set ",
              names_.local_rank,
              " to ",
              rank,
              ": on a single machine ",
              names_.local_rank,
              " equals ",
              names_.rank));
    }
  }

  // The variable that `local_size` reads.
  const char* local_size_name() const {
    if (names_.launcher != Launcher::slurm) {
      return names_.local_size;
    }
    return on_one_node() ? names_.size : kTasksPerNode;
  }

  bool on_one_node() const { return number(names_.nodes, 1).value_or(1) == 1; }

  // Slurm has a list of tasks per node like "2(x3),1" instead of a number.
  std::optional<int> local_size(const Topology& topology) const {
    if (names_.launcher != Launcher::slurm) {
      return number(names_.local_size, 1);
    }
    if (on_one_node()) {
      return topology.num_processes;
    }
    if (!environment_.has(names_.node)) {
      throw_half_set(
          environment_,
          names_.nodes,
          names_.node,
          "start the program with `srun`, which sets both variables");
    }
    const auto tasks = environment_.get(kTasksPerNode);
    const int node = *number(names_.node, 0);
    check_below(names_.node, node, *number(names_.nodes, 1), names_.nodes);
    return tasks ? std::optional<int>(tasks_of_node(*tasks, node))
                 : std::nullopt;
  }

  int tasks_of_node(const std::string& text, int node) const {
    std::size_t at = 0;
    int first = 0;
    while (at < text.size()) {
      std::size_t used = 0;
      int tasks = 0;
      int times = 1;
      try {
        tasks = std::stoi(text.substr(at), &used);
        at += used;
        if (text.compare(at, 2, "(x") == 0) {
          times = std::stoi(text.substr(at + 2), &used);
          at += used + 3;
        }
      } catch (const std::exception&) {
        tasks = 0;
      }
      if (tasks < 1 || times < 1) {
        throw ConfigError(
            str_cat(
                "environment variable SLURM_STEP_TASKS_PER_NODE is `",
                text,
                "`, not a list like `2(x3),1`"),
            "start the program with `srun`, which sets this variable");
      }
      first += times;
      if (node < first) {
        return tasks;
      }
      ++at;  // The comma.
    }
    throw ConfigError(
        str_cat(
            "environment variable ",
            names_.node,
            " is `",
            node,
            "`, but ",
            kTasksPerNode,
            " is `",
            text,
            "`, which covers only ",
            first == 1 ? "node 0" : str_cat("nodes 0 to ", first - 1)),
        "start the program with `srun`, which sets both variables");
  }

  void require_one_machine(const Topology& topology) const {
    const auto address = environment_.get("MASTER_ADDR").value_or("localhost");
    const bool local = address == "localhost" || address == "127.0.0.1" ||
                       address == "::1" || topology.num_processes == 1;
    if (!local) {
      throw ConfigError(
          str_cat(
              "environment variable MASTER_ADDR is `",
              address,
              "`, so the job may span several machines, but ",
              names_.local_rank,
              " is not set"),
          str_cat(
              "set ",
              names_.local_rank,
              " and ",
              names_.local_size == nullptr ? kTasksPerNode : names_.local_size,
              ", or use a launcher, which sets these variables"));
    }
  }

  void read_nodes(Topology& topology) const {
    const int local = topology.local_num_processes;
    const auto nodes = number(names_.nodes, 1);
    topology.node_index =
        number(names_.node, 0).value_or(topology.process_index / local);
    topology.num_nodes = nodes.value_or(std::max(
        (topology.num_processes + local - 1) / local, topology.node_index + 1));
    if (nodes) {
      check_below(names_.node, topology.node_index, *nodes, names_.nodes);
      check_number_of_nodes(topology);
    } else if (names_.node != nullptr) {
      check_node(topology);
    }
    if (names_.launcher == Launcher::torchrun) {
      check_first_node(topology);
    }
  }

  // Every other machine has at least one process.
  void check_number_of_nodes(const Topology& topology) const {
    const int others = topology.num_processes - topology.local_num_processes;
    const int min_nodes = others == 0 ? 1 : 2;
    const int max_nodes = others + 1;
    if (topology.num_nodes >= min_nodes && topology.num_nodes <= max_nodes) {
      return;
    }
    const bool too_few = topology.num_nodes < min_nodes;
    throw ConfigError(
        str_cat(
            "environment variable ",
            names_.nodes,
            " is `",
            topology.num_nodes,
            "`, but this machine runs ",
            topology.local_num_processes,
            " of ",
            topology.num_processes,
            " processes, so the number of machines is at ",
            too_few ? "least " : "most ",
            too_few ? min_nodes : max_nodes),
        min_nodes == max_nodes
            ? str_cat("set ", names_.nodes, " to ", max_nodes)
            : str_cat(
                  "set ",
                  names_.nodes,
                  " to a number from ",
                  min_nodes,
                  " to ",
                  max_nodes));
  }

  // torchrun numbers the processes of its first machine first.
  void check_first_node(const Topology& topology) const {
    if (!environment_.has(names_.node) || topology.node_index != 0 ||
        topology.local_process_index == topology.process_index) {
      return;
    }
    throw ConfigError(
        str_cat(
            "environment variable ",
            names_.node,
            " is `0`, but ",
            names_.rank,
            " is `",
            topology.process_index,
            "` and ",
            names_.local_rank,
            " is `",
            topology.local_process_index,
            "`; on the first machine both must be equal"),
        str_cat(
            "set ",
            names_.node,
            " to the index of this machine or, if this is the first machine, ",
            names_.rank,
            " to ",
            topology.local_process_index));
  }

  // Machines may have unequal numbers of processes, but each has at least one.
  void check_node(const Topology& topology) const {
    const int max_node = topology.num_processes - topology.local_num_processes;
    if (topology.node_index <= max_node) {
      return;
    }
    const std::string beginning = str_cat(
        "environment variable ", names_.node, " is `", topology.node_index);
    if (max_node == 0) {
      throw ConfigError(
          str_cat(
              beginning,
              "`, but all ",
              topology.num_processes,
              " processes are on this machine"),
          str_cat("set ", names_.node, " to 0, or unset it"));
    }
    throw ConfigError(
        str_cat(
            beginning,
            "`, but this machine runs ",
            topology.local_num_processes,
            " of ",
            topology.num_processes,
            " processes, so there are at most ",
            max_node + 1,
            " machines"),
        str_cat("set ", names_.node, " to a number from 0 to ", max_node));
  }

  const Environment& environment_;
  const VariableNames& names_;
};

bool is_set(const Environment& environment, const VariableNames& names) {
  if (names.launcher == Launcher::slurm) {
    // In a worker of `accelerate launch`, Slurm's variables describe the
    // launcher.
    if (environment.has("ACCELERATE_LAUNCH_ID")) {
      return false;
    }
    // A batch script also has SLURM_PROCID, but is a single process. Only
    // `srun` creates a step with several tasks.
    return environment.has("SLURM_STEP_ID") && environment.has(names.rank) &&
           (environment.has(names.size) ||
            environment.get_integer(names.rank, 0) != 0);
  }
  // WORLD_SIZE=1 alone is common and harmless.
  return environment.has(names.rank) ||
         environment.get_integer(names.size, 1).value_or(1) > 1;
}

// `srun --mpi=pmi2` sets the variables of MPICH, too, but only Slurm's own
// variables contain the node of a process. An `mpiexec` inside a step assigns
// its own ranks.
bool repeats_slurm(const Environment& environment, const VariableNames& names) {
  const VariableNames& slurm = kVariableNames.back();
  const auto is_same = [&](const char* name, const char* slurm_name) {
    const auto value = environment.get(name);
    return value && value == environment.get(slurm_name);
  };
  const bool is_mpi =
      names.launcher != Launcher::torchrun && names.launcher != Launcher::slurm;
  return is_mpi && is_set(environment, slurm) &&
         is_same(names.rank, slurm.rank) && is_same(names.size, slurm.size);
}

// Called when no variable indicates several processes.
void refuse_local_without_global(
    const Environment& environment, const VariableNames& names) {
  const auto more_than = [&](const char* name, int one_process) {
    return name != nullptr && environment.get_integer(name, -1).value_or(
                                  one_process) > one_process;
  };
  const char* unexpected = more_than(names.local_rank, 0)   ? names.local_rank
                           : more_than(names.local_size, 1) ? names.local_size
                           : more_than(names.node, 0)       ? names.node
                                                            : nullptr;
  if (unexpected != nullptr) {
    throw_half_set(
        environment,
        unexpected,
        names.rank,
        str_cat(
            "set ",
            names.rank,
            " and ",
            names.size,
            " too, or unset ",
            unexpected,
            " for a single process; a launcher sets all of these variables"));
  }
}

void read_rendezvous_address(
    const Environment& environment, Topology& topology) {
  topology.main_address = environment.get("MASTER_ADDR");
  if (const auto port = environment.get_integer("MASTER_PORT", 1, 65535)) {
    topology.main_port = static_cast<int>(*port);
  }
  topology.launcher_serves_store =
      environment.get_flag("TORCHELASTIC_USE_AGENT_STORE").value_or(false);
  // A launcher inside a worker of `accelerate launch` starts a separate run,
  // whose processes must not use the outer launcher's store.
  const auto run = environment.get("ACCELERATE_STORE_RUN");
  if (run && run == environment.get("TORCHELASTIC_RUN_ID") &&
      topology.launcher == Launcher::torchrun) {
    topology.launcher_store = environment.get("ACCELERATE_STORE");
    topology.launcher_store_secret =
        environment.get("ACCELERATE_STORE_SECRET").value_or("");
    topology.launcher_store_run = *run;
  }
  topology.restart_count = static_cast<int>(
      environment.get_integer("TORCHELASTIC_RESTART_COUNT").value_or(0));
  topology.scratch_folder = environment.get("TMPDIR").value_or("/tmp");
  const auto step = SlurmStep::of(environment);
  const auto nodes = environment.get("SLURM_STEP_NODELIST");
  if (topology.launcher == Launcher::slurm && topology.num_nodes > 1 && step &&
      nodes && !topology.main_address) {
    topology.main_address = expand_node_list("SLURM_STEP_NODELIST", *nodes)[0];
    topology.slurm_step = step;
  }
}

}  // namespace

const char* name_of(Launcher launcher) {
  switch (launcher) {
    case Launcher::none:
      return "none";
    case Launcher::torchrun:
      return "torchrun";
    case Launcher::openmpi:
      return "Open MPI";
    case Launcher::mpich:
      return "MPICH";
    case Launcher::mvapich:
      return "MVAPICH";
    case Launcher::slurm:
      return "Slurm";
  }
  return "?";
}

Topology detect_topology(const Environment& environment) {
  for (const VariableNames& names : kVariableNames) {
    if (is_set(environment, names) && !repeats_slurm(environment, names)) {
      Topology topology = Reader(environment, names).read();
      read_rendezvous_address(environment, topology);
      return topology;
    }
  }
  for (const VariableNames& names : kVariableNames) {
    // A Slurm batch script is a single process with the variables of a larger
    // job.
    if (names.launcher != Launcher::slurm) {
      refuse_local_without_global(environment, names);
    }
  }
  return {};
}

}  // namespace accelerate
