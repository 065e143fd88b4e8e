// SPDX-License-Identifier: Apache-2.0
// A user's program, for `accelerate launch`.
//
//     launched_program [rank that throws after the first collective]
//     launched_program sleeps    rank 0 waits for rank 1, which sleeps
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

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
  if (argc > 1 && std::string(argv[1]) == "sleeps") {
    if (rank == 1) {
      std::this_thread::sleep_for(std::chrono::seconds(60));
    }
    (void)accelerate::gather(at::full({1}, 1.0));
    return 0;
  }
  if (argc > 1 && std::atol(argv[1]) == rank) {
    throw std::runtime_error("the loss is not a number");
  }
  if (argc > 1) {
    // Waits for the rank that has thrown.
    (void)accelerate::gather(at::full({1}, 1.0));
  }
  return 0;
}
