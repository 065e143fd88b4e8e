// SPDX-License-Identifier: Apache-2.0
// The program that `accelerate test` runs in every process. It checks that the
// processes share the work, communicate, and train like a single process.
//
//     accelerate test --cpu --num_processes 2
//
// It is a separate program because the command line does not link LibTorch.
#include <cstdint>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

#include <accelerate/accelerate.h>

#include <ATen/ATen.h>
#include <torch/data/example.h>
#include <torch/nn.h>
#include <torch/optim.h>

namespace accelerate {
namespace {

constexpr std::int64_t kRows = 240;
constexpr std::int64_t kColumns = 8;
constexpr std::int64_t kBatch = 4;

[[noreturn]] void fail(const PartialState& state, const std::string& text) {
  std::cerr << "rank " << state.process_index() << ": " << text << std::endl;
  throw InternalError(text);
}

void check(const PartialState& state, bool passed, const std::string& name) {
  // Gathers the results, so that no rank waits for a failed rank.
  const auto results = gather_object({Json(passed)});
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    if (!results[rank].as_bool()) {
      fail(
          state,
          "this check failed on rank " + std::to_string(rank) + ": " + name);
    }
  }
  state.print("ok: ", name);
}

void check_sharding(const PartialState& state) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(kRows) + 1);
  std::iota(rows.begin(), rows.end(), 0);
  const auto local_rows = state.split_between_processes(rows);

  std::vector<std::int64_t> all;
  for (const Json& share : gather_object({Json(local_rows)})) {
    for (const Json& row : share.as_array()) {
      all.push_back(row.as_integer());
    }
  }
  check(
      state, all == rows, "every sample goes to exactly one process, in order");
}

void check_collectives(const PartialState& state) {
  const std::int64_t rank = state.process_index();
  const std::int64_t world = state.num_processes();
  // The tensors have different sizes on different ranks.
  const at::Tensor rows = gather(at::full({rank + 1}, rank, at::kLong));
  const std::int64_t expected = world * (world - 1) * (world + 1) / 3;
  check(
      state,
      rows.numel() == world * (world + 1) / 2 &&
          rows.sum().item<std::int64_t>() == expected,
      "gather tensors of different sizes");

  const at::Tensor mean =
      reduce(at::full({3}, static_cast<double>(rank), at::kDouble));
  check(
      state,
      mean[2].item<double>() == static_cast<double>(world - 1) / 2,
      "reduce to the mean");

  const at::Tensor value = at::full({2}, rank, at::kLong);
  broadcast(value, static_cast<int>(world - 1));
  check(
      state,
      value[1].item<std::int64_t>() == world - 1,
      "broadcast from the last process");
}

// The rows of a least-squares problem.
struct Rows {
  std::int64_t count = 0;

  std::int64_t size() const { return count; }
  torch::data::Example<> get(std::int64_t index) const {
    const at::Tensor x = at::arange(kColumns, at::kDouble)
                             .add(static_cast<double>(index * kColumns))
                             .mul(0.37)
                             .sin();
    return {x, x.sum().mul(0.5)};
  }
};

void check_loader(Accelerator& accelerator, const PartialState& state) {
  // One more row than the processes can share evenly.
  const Rows rows{kBatch * state.num_processes() * 3 + 1};
  DataLoader loader(rows, {.batch_size = kBatch});
  accelerator.prepare(loader);
  std::vector<at::Tensor> seen;
  for (auto& batch : loader) {
    seen.push_back(accelerator.gather_for_metrics(batch.target));
  }
  std::vector<at::Tensor> expected;
  for (std::int64_t i = 0; i < rows.size(); ++i) {
    expected.push_back(rows.get(i).target);
  }
  check(
      state,
      at::cat(seen).equal(at::stack(expected)),
      "gathered data loader batches contain the dataset in order");
}

torch::nn::Linear make_model() {
  torch::nn::Linear model(kColumns, 1);
  model->to(at::kDouble);
  torch::nn::init::zeros_(model->weight);
  torch::nn::init::zeros_(model->bias);
  return model;
}

at::Tensor loss_of(
    torch::nn::Linear& model, const at::Tensor& x, const at::Tensor& y) {
  return torch::nn::functional::mse_loss(model->forward(x).flatten(), y);
}

// Fits the same data twice: with a prepared model on this process's share of
// each batch, and with a local model on global batches.
void check_training(Accelerator& accelerator, const PartialState& state) {
  const std::int64_t global_batch = kBatch * state.num_processes();
  const Rows rows{global_batch * 10};
  DataLoader loader(rows, {.batch_size = kBatch});
  DataLoader local_loader(rows, {.batch_size = global_batch});
  auto model = make_model();
  auto local_model = make_model();
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  torch::optim::SGD local_optimizer(local_model->parameters(), 0.1);
  accelerator.prepare(loader, model, optimizer);
  double first_loss = 0;
  double last_loss = 0;
  for (int epoch = 0; epoch < 5; ++epoch) {
    for (auto& batch : loader) {
      accelerator.backward(loss_of(model, batch.data, batch.target));
      optimizer.step();
      optimizer.zero_grad();
    }
    for (auto& batch : local_loader) {
      const at::Tensor loss = loss_of(local_model, batch.data, batch.target);
      last_loss = loss.item<double>();
      first_loss = first_loss == 0 ? last_loss : first_loss;
      loss.backward();
      local_optimizer.step();
      local_optimizer.zero_grad();
    }
  }
  const double difference =
      model->weight.sub(local_model->weight).abs().max().item<double>();
  // The tolerance allows for sums in a different order, which round
  // differently.
  check(
      state,
      difference < 1e-12 && last_loss < 0.5 * first_loss,
      "50 training steps give the same result as in one process");
}

int run() {
  Accelerator accelerator;
  const PartialState state;
  state.print(
      "checking ",
      state.num_processes(),
      state.num_processes() == 1 ? " process on " : " processes on ",
      state.device().str(),
      state.num_processes() == 1 ? "" : " over " + state.backend());
  check_sharding(state);
  check_collectives(state);
  check_loader(accelerator, state);
  check_training(accelerator, state);
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
