// SPDX-License-Identifier: Apache-2.0
// Ranks, backends and inputs for tests under mpirun.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "comm/backends/transport_backend.h"
#include "comm/plugin.h"

namespace accelerate {

using BackendPtr = c10::intrusive_ptr<c10d::Backend>;
using TensorList = std::vector<at::Tensor>;

inline int number_from(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? -1 : std::atoi(text);
}

inline int world_rank() {
  return number_from("OMPI_COMM_WORLD_RANK");
}

inline int world_size() {
  return number_from("OMPI_COMM_WORLD_SIZE");
}

inline BackendPtr new_group(
    std::vector<int> members = {},
    std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
  const auto aborted = std::make_shared<std::atomic<bool>>(false);
  PluginGroupOptions options;
  options.process_index = world_rank();
  options.num_processes = world_size();
  options.members = std::move(members);
  options.limits.timeout = timeout;
  options.limits.aborted = aborted.get();
  return c10::make_intrusive<TransportBackend>(
      create_plugin_transport("mpi", options), "mpi", aborted);
}

/// Returns the input of `rank`, which every rank can compute.
inline at::Tensor input_of(
    int rank, at::IntArrayRef shape, at::ScalarType type, int salt = 0) {
  const auto seed = static_cast<std::uint64_t>(salt) * 1000003 +
                    static_cast<std::uint64_t>(rank) + 1;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  if (at::isFloatingType(type)) {
    return at::randn(shape, generator, at::kDouble).to(type);
  }
  const int low = type == at::kBool || type == at::kByte ? 0 : -100;
  const int high = type == at::kBool ? 2 : 100;
  return at::randint(low, high, shape, generator, at::kLong).to(type);
}

}  // namespace accelerate
