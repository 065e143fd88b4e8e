// SPDX-License-Identifier: Apache-2.0
// The models for the GPU benchmark, built from fused blocks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

/// One row of the result table: a model and its batch.
struct Workload {
  std::string name;
  std::vector<at::Tensor> parameters;
  std::function<at::Tensor()> loss;
  std::int64_t units = 0;  ///< Samples or tokens per step.
  int steps = 20;
};

struct WorkloadMaker {
  std::string name;
  std::function<Workload()> make;
};

/// Returns the workloads in the same order and with the same names as in the
/// benchmark script for Hugging Face Accelerate.
std::vector<WorkloadMaker> workloads();
