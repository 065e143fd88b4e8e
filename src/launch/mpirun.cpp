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
          "`mpirun --version` says `",
          printable(split(version_output, '\n')[0]),
          "`, which is neither Open MPI nor MPICH"),
      "put the `mpirun` of one of them first in PATH");
}

std::vector<std::string> mpirun_words(const MpirunOptions& options) {
  const bool open_mpi = options.family == MpiFamily::open_mpi;
  std::vector<std::string> words = {options.mpirun};
  const auto add = [&](std::initializer_list<std::string> more) {
    words.insert(words.end(), more);
  };
  const std::string each =
      std::to_string(options.num_processes / options.num_machines);
  if (open_mpi) {
    add({"--hostfile", options.hostfile});
    add({"-np", std::to_string(options.num_processes)});
    add({"--map-by", str_cat("ppr:", each, ":node")});
    // A process computes with threads; one core for all of them is too few.
    add({"--bind-to", "none"});
  } else {
    add({"-f", options.hostfile});
    add({"-n", std::to_string(options.num_processes)});
    add({"-ppn", each});
  }
  for (const auto& [name, value] : options.variables) {
    if (open_mpi) {
      add({"-x", str_cat(name, "=", value)});
    } else {
      add({"-genv", name, value});
    }
  }
  words.insert(words.end(), options.words.begin(), options.words.end());
  return words;
}

std::string first_mpi_host(const std::string& hostfile_text) {
  for (const std::string& line : split(hostfile_text, '\n')) {
    const std::string_view text = trim(line);
    if (!text.empty() && text[0] != '#') {
      return std::string(text.substr(0, text.find_first_of(" \t:")));
    }
  }
  return {};
}

}  // namespace accelerate
