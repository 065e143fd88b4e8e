// SPDX-License-Identifier: Apache-2.0
#include "launch/mpirun.h"

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate {

MpiFamily mpi_family(const std::string& version_output) {
  const std::string text = lower(version_output);
  if (text.find("open mpi") != std::string::npos ||
      text.find("open-mpi") != std::string::npos ||
      text.find("openrte") != std::string::npos) {
    return MpiFamily::open_mpi;
  }
  for (const char* word : {"hydra", "mpich", "intel(r) mpi", "mvapich"}) {
    if (text.find(word) != std::string::npos) {
      return MpiFamily::mpich;
    }
  }
  throw UnsupportedError(
      str_cat(
          "`mpirun --version` printed `",
          printable(split(version_output, '\n')[0]),
          "`, which is neither Open MPI nor MPICH"),
      "put the folder of an Open MPI or MPICH `mpirun` first in PATH");
}

std::vector<std::string> mpirun_argv(const MpirunOptions& options) {
  const bool open_mpi = options.family == MpiFamily::open_mpi;
  std::vector<std::string> argv = {options.mpirun};
  const auto add = [&](std::initializer_list<std::string> arguments) {
    argv.insert(argv.end(), arguments);
  };
  const std::string per_machine =
      std::to_string(options.num_processes / options.num_machines);
  if (open_mpi) {
    add({"--hostfile", options.hostfile});
    add({"-np", std::to_string(options.num_processes)});
    add({"--map-by", str_cat("ppr:", per_machine, ":node")});
    // By default Open MPI binds each process, with all its threads, to one
    // core.
    add({"--bind-to", "none"});
  } else {
    add({"-f", options.hostfile});
    add({"-n", std::to_string(options.num_processes)});
    add({"-ppn", per_machine});
  }
  for (const auto& [name, value] : options.variables) {
    if (open_mpi) {
      add({"-x", str_cat(name, "=", value)});
    } else {
      add({"-genv", name, value});
    }
  }
  argv.insert(
      argv.end(), options.program_argv.begin(), options.program_argv.end());
  return argv;
}

std::string first_hostfile_node(const std::string& hostfile_text) {
  for (const std::string& line : split(hostfile_text, '\n')) {
    const std::string_view text = trim(line);
    if (!text.empty() && text[0] != '#') {
      return std::string(text.substr(0, text.find_first_of(" \t:")));
    }
  }
  return {};
}

}  // namespace accelerate
