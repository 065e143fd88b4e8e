// SPDX-License-Identifier: Apache-2.0
// How processes communicate: a few collectives, how long they take, and the
// error that a mistake causes.
//
//     make build TARGETS=collectives
//     build/bin/examples/collectives [number of processes, default 2]
//
// `debug_launcher` starts the processes. Under torchrun or srun, the same
// functions run without `debug_launcher`.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <string>
#include <vector>

#include <accelerate/error.h>
#include <accelerate/group.h>
#include <accelerate/launchers.h>
#include <accelerate/operations.h>
#include <accelerate/partial_state.h>

#include <ATen/ATen.h>

namespace {

using accelerate::PartialState;
using accelerate::Reduction;

// region: collectives
void collectives() {
  const accelerate::PartialState state;  // Joins the other processes.
  const auto rank = state.process_index();
  state.print(state.num_processes(), " processes over ", state.backend());

  // The rows from all processes, in rank order. Each process may pass a
  // different number of rows.
  const at::Tensor rows = accelerate::gather(at::full({rank + 1}, rank));
  state.print("gather: ", rows.numel(), " rows, the last is ", rows[-1].item());

  // The mean over all processes.
  const at::Tensor loss = at::full({}, 1.0 + static_cast<double>(rank));
  state.print("mean loss: ", accelerate::reduce(loss).item());

  // Each process gets a share of the words, then all shares are gathered.
  const std::vector<std::string> words = {"one", "two", "three", "four"};
  const auto share = state.split_between_processes(words);
  const auto summary = accelerate::Json::object(
      {{"process", rank}, {"device", state.device().str()}, {"share", share}});
  for (const auto& gathered : accelerate::gather_object({summary})) {
    state.print(gathered.dump());
  }
}
// endregion

// Computes while a sum over all processes is in progress.
// region: overlap
void overlap(const PartialState& state) {
  const at::Tensor sum = at::ones({1 << 20});
  accelerate::Pending pending = state.group().start_all_reduce(sum);
  const at::Tensor product = at::ones({512, 512}).mm(at::ones({512, 512}));
  pending.wait();
  state.print("sum: ", sum[0].item(), ", product: ", product[0][0].item());
}
// endregion

// The median time of a sum over all processes, in milliseconds.
double time_reduce(std::int64_t bytes) {
  const at::Tensor tensor = at::ones({bytes / 4});
  const int repeats = bytes < (1 << 20) ? 200 : 10;
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    PartialState().wait_for_everyone();
    const auto start = std::chrono::steady_clock::now();
    static_cast<void>(
        accelerate::reduce(tensor, {.reduction = Reduction::sum}));
    times.push_back(std::chrono::duration<double, std::milli>(
                        std::chrono::steady_clock::now() - start)
                        .count());
  }
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return times[static_cast<std::size_t>(repeats / 2)];
}

void show_times(const std::vector<double>& times, std::int64_t first_bytes) {
  // region: gloo
  const PartialState gloo(
      {.init_process_group = {.backend = accelerate::Backend::gloo}});
  // endregion
  gloo.print("\nsum over all processes   default        Gloo     ratio");
  for (std::size_t i = 0; i < times.size(); ++i) {
    const std::int64_t bytes = first_bytes << (4 * i);
    const double gloo_time = time_reduce(bytes);
    std::ostringstream line;
    line << std::fixed << std::setw(12) << bytes / 1024 << " KiB"
         << std::setprecision(3) << std::setw(13) << times[i] << " ms"
         << std::setw(9) << gloo_time << " ms" << std::setprecision(2)
         << std::setw(8) << times[i] / gloo_time;
    gloo.print(line.str());
  }
}

void show_a_mistake() {
  const PartialState state;
  state.print(
      "\nif tensors do not match, all processes get an error immediately:");
  try {
    static_cast<void>(
        accelerate::gather(at::zeros({8, state.is_main_process() ? 4 : 3})));
  } catch (const accelerate::MismatchError& error) {
    state.print(error.what(), "\nhint: ", error.hint());
  }
}

void demo() {
  collectives();
  overlap(PartialState());
  const std::int64_t first_bytes = 4 << 10;
  std::vector<double> times;
  for (std::int64_t bytes = first_bytes; bytes <= 16 << 20; bytes <<= 4) {
    times.push_back(time_reduce(bytes));
  }
  PartialState::reset();  // Allows another backend.
  show_times(times, first_bytes);
  show_a_mistake();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && argv[1][0] == '-') {
    const bool is_help = std::string(argv[1]) == "--help";
    (is_help ? std::cout : std::cerr) << "usage: collectives [processes]\n";
    return is_help ? 0 : 2;
  }
  try {
    const int processes = argc > 1 ? std::atoi(argv[1]) : 2;
    // region: launch
    accelerate::debug_launcher(demo, {.num_processes = processes});
    // endregion
  } catch (const accelerate::Error& error) {
    std::cerr << "error: " << error.what() << "\n";
    return error.exit_code();
  }
}
