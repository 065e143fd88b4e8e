// SPDX-License-Identifier: Apache-2.0
// The models of the GPU benchmark, made of fused blocks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

/// One line of the table: a model, its batch, and what counts as a unit.
struct Workload {
  std::string name;
  std::vector<at::Tensor> parameters;
  std::function<at::Tensor()> loss;
  std::int64_t units = 0;  ///< Samples or tokens of a step.
  int steps = 20;
};

struct WorkloadMaker {
  std::string name;
  std::function<Workload()> make;
};

/// In the order of the peer's script, under its names.
std::vector<WorkloadMaker> workloads();
