// SPDX-License-Identifier: Apache-2.0
#include "support/make_group.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "config/environment.h"
#include "state/rendezvous_store.h"
#include "state/topology.h"

namespace accelerate::benchmarks {

Group make_group(const std::string& name, Backend backend) {
  const auto topology = detect_topology(Environment::of_this_process());
  const auto store = c10::make_intrusive<c10d::PrefixStore>(
      name, open_store(topology, std::nullopt, std::chrono::seconds(60)));
  GroupOptions options;
  options.backend = backend;
  return Group(store, topology.process_index, topology.num_processes, options);
}

}  // namespace accelerate::benchmarks
