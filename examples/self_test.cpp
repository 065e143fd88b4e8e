// SPDX-License-Identifier: Apache-2.0
// What `accelerate test` runs on every process: do they share the work, talk to
// each other, and train as one process would?
//
//     accelerate test --cpu --num_processes 2
//
// A program of its own, because the command line does not link LibTorch.
#include <cstdint>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

#include <accelerate/error.h>
#include <accelerate/json.h>
#include <accelerate/operations.h>
#include <accelerate/partial_state.h>

#include <ATen/ATen.h>

namespace accelerate {
namespace {

constexpr std::int64_t kRows = 240;
constexpr std::int64_t kColumns = 8;

[[noreturn]] void fail(const PartialState& state, const std::string& text) {
  std::cerr << "rank " << state.process_index() << ": " << text << std::endl;
  throw InternalError(text);
}

void check(const PartialState& state, bool holds, const std::string& what) {
  // Everybody hears of one rank's trouble, so that nobody waits for it.
  const auto answers = gather_object({Json(holds)});
  for (std::size_t rank = 0; rank < answers.size(); ++rank) {
    if (!answers[rank].as_bool()) {
      fail(state, "rank " + std::to_string(rank) + ": " + what + " is wrong");
    }
  }
  state.print("ok: ", what);
}

void check_sharding(const PartialState& state) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(kRows) + 1);
  std::iota(rows.begin(), rows.end(), 0);
  const auto mine = state.split_between_processes(rows);

  std::vector<std::int64_t> all;
  for (const Json& share : gather_object({Json(mine)})) {
    for (const Json& row : share.as_array()) {
      all.push_back(row.as_integer());
    }
  }
  check(state, all == rows, "every sample goes to one process, in order");
}

void check_collectives(const PartialState& state) {
  const std::int64_t rank = state.process_index();
  const std::int64_t world = state.num_processes();
  // Sizes differ from rank to rank.
  const at::Tensor rows = gather(at::full({rank + 1}, rank, at::kLong));
  const std::int64_t expected = world * (world - 1) * (world + 1) / 3;
  check(
      state,
      rows.numel() == world * (world + 1) / 2 &&
          rows.sum().item<std::int64_t>() == expected,
      "gather of tensors of different sizes");

  const at::Tensor mean =
      reduce(at::full({3}, static_cast<double>(rank), at::kDouble));
  check(
      state,
      mean[2].item<double>() == static_cast<double>(world - 1) / 2,
      "reduce to the mean");

  const at::Tensor word = at::full({2}, rank, at::kLong);
  broadcast(word, static_cast<int>(world - 1));
  check(
      state,
      word[1].item<std::int64_t>() == world - 1,
      "broadcast from the last process");
}

// The gradient of a least-squares fit on some of the rows, summed.
at::Tensor gradient(
    const at::Tensor& x, const at::Tensor& y, const at::Tensor& weights) {
  return x.t().matmul(x.matmul(weights).sub(y));
}

// The same fit twice: on this process's share with gradients added up over all
// processes, and on everything without the others.
void check_training(const PartialState& state) {
  const at::Tensor x = at::arange(kRows * kColumns, at::kDouble)
                           .mul(0.37)
                           .sin()
                           .reshape({kRows, kColumns});
  const at::Tensor y = x.sum(1).mul(0.5);
  const at::Tensor my_x = state.split_between_processes(x);
  const at::Tensor my_y = state.split_between_processes(y);
  at::Tensor together = at::zeros({kColumns}, at::kDouble);
  at::Tensor alone = together.clone();
  for (int step = 0; step < 50; ++step) {
    const at::Tensor sum =
        reduce(gradient(my_x, my_y, together), {.reduction = Reduction::sum});
    together = together.sub(sum.mul(0.5 / kRows));
    alone = alone.sub(gradient(x, y, alone).mul(0.5 / kRows));
  }
  const double apart = together.sub(alone).abs().max().item<double>();
  const double loss = x.matmul(together).sub(y).pow(2).mean().item<double>();
  // Rounding of sums in another order; the fit itself must have improved.
  check(
      state,
      apart < 1e-12 && loss < 0.5 * y.pow(2).mean().item<double>(),
      "50 steps of training equal those of one process");
}

int run() {
  const PartialState state;
  state.print(
      "checking ",
      state.num_processes(),
      state.num_processes() == 1 ? " process on " : " processes on ",
      state.device().str(),
      state.num_processes() == 1 ? "" : " over " + state.backend());
  check_sharding(state);
  check_collectives(state);
  check_training(state);
  state.wait_for_everyone();
  return 0;
}

}  // namespace
}  // namespace accelerate

int main() {
  try {
    return accelerate::run();
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << std::endl;
    return 1;
  }
}
