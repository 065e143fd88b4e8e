// SPDX-License-Identifier: Apache-2.0
// A program as a user writes it, to be started by `accelerate launch`.
//
//     launched_program [rank that throws after the first collective]
#include <cstdlib>
#include <iostream>
#include <stdexcept>

#include <accelerate/operations.h>
#include <accelerate/partial_state.h>

#include <ATen/ATen.h>

int main(int argc, char** argv) {
  const accelerate::PartialState state;
  const auto rank = state.process_index();
  const at::Tensor all =
      accelerate::gather(at::full({1}, static_cast<double>(rank)));
  state.print(
      state.num_processes(),
      " processes, sum of ranks ",
      all.sum().item<double>());
  if (argc > 1 && std::atol(argv[1]) == rank) {
    throw std::runtime_error("the loss is not a number");
  }
  if (argc > 1) {
    // Waits for the one that will never come.
    (void)accelerate::gather(at::full({1}, 1.0));
  }
  return 0;
}
