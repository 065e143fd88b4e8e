// SPDX-License-Identifier: Apache-2.0
// Random programs of about twenty operators, for comparing devices.
//
// A seed determines a program. Each step makes its choices from the seed, the
// number of the step, and the shapes and types of the tensors made so far,
// which are the same on every device. The run on the CPU decides which steps
// count: the other runs leave out a step that threw or overflowed on the CPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/ATen.h>

namespace accelerate::xla {

enum class FuzzPlace : std::uint8_t {
  cpu,
  cpu_in_f64,  ///< Like `cpu`, with f64 in place of narrower types.
  xla,
};

struct FuzzStep {
  std::string text;  ///< Such as `t6 = add(t1 f32 [2, 3], t2 f32 [3])`.
  bool counts = false;
  /// The numbers of the operands: 1 and 2 for `t1` and `t2`.
  std::vector<std::size_t> chosen = {};
};

struct FuzzRun {
  at::ScalarType type = at::kDouble;  ///< Of the leaves.
  std::vector<FuzzStep> steps;
  std::vector<at::Tensor> values;     ///< All tensors at the end, on the CPU.
  std::vector<at::Tensor> gradients;  ///< Of the leaves; may be undefined.
  std::string backward_error;
};

/// Runs the program of `seed`. `on_cpu` is the program's run on the CPU; it is
/// null for that run itself. Throws `std::runtime_error` with the step if a
/// step that counts throws in another run.
FuzzRun run_fuzz_program(
    std::uint64_t seed, FuzzPlace place, const FuzzRun* on_cpu = nullptr);

/// Returns the steps that count, one per line.
std::string text_of(const FuzzRun& run);

}  // namespace accelerate::xla
