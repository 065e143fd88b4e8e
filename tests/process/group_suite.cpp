// SPDX-License-Identifier: Apache-2.0
// Runs every conformance check with the process group of this run, under any
// launcher:
//
//     mpirun -n 3 build/bin/tests/group_suite mpi
//
// The argument is the backend that the group must have.
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

#include "accelerate/partial_state.h"
#include "support/conformance.h"
#include "support/listening.h"

int main(int argc, char** argv) {
  const accelerate::PartialState state;
  accelerate::Group group = state.group();
  if (argc != 2 || state.backend() != argv[1]) {
    std::fprintf(stderr, "the backend is %s\n", state.backend().c_str());
    return 2;
  }
  std::string running;
  try {
    for (const auto& [name, check] : accelerate::conformance_checks()) {
      running = name;
      check(group);
    }
    running = "listening sockets";
    for (const std::string& address : accelerate::listening_addresses("self")) {
      if (address != accelerate::kLoopbackInHex) {
        throw std::runtime_error("listens on " + address);
      }
    }
    running = "large";
    accelerate::large_collectives(group);
    running = "rank order";
    accelerate::sums_in_rank_order(group);
    running = "mixed";
    accelerate::mixed_collectives(group, 10'000, 20261115);
    running = "subgroup";
    if (auto pair = group.subgroup({2, 0})) {
      accelerate::mixed_collectives(*pair, 200, 7);
    }
    running = "end";
    group.barrier();
  } catch (const std::exception& error) {
    std::fprintf(
        stderr,
        "rank %d, %s: %s\n",
        group.rank(),
        running.c_str(),
        error.what());
    return 1;
  }
  state.print("all checks passed on ", group.size(), " ranks");
  return 0;
}
