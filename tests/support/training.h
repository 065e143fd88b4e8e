// SPDX-License-Identifier: Apache-2.0
// A small model and its training in one process, for tests that train the same
// model on several ranks.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <torch/nn.h>
#include <torch/optim.h>

#include "accelerate/autocast.h"
#include "accelerate/optim.h"

namespace accelerate {

/// A model with a tied weight and an unused layer.
struct NetImpl : torch::nn::Module {
  NetImpl() {
    first = register_module("first", torch::nn::Linear(6, 9));
    second = register_module("second", torch::nn::Linear(9, 9));
    unused = register_module("unused", torch::nn::Linear(3, 3));
    // Registers the same weight under two names.
    tied = register_parameter("tied", second->weight);
  }
  at::Tensor forward(const at::Tensor& x) {
    return at::linear(torch::tanh(second(torch::tanh(first(x)))), tied);
  }
  torch::nn::Linear first{nullptr}, second{nullptr}, unused{nullptr};
  at::Tensor tied;
};
TORCH_MODULE(Net);

/// The device of the single-process training with which training on several
/// ranks is compared.
inline c10::Device& reference_device() {
  static c10::Device device(c10::kCPU);
  return device;
}

/// Creates the model under a lock, because ranks are threads that share the
/// random number generator of the process.
inline Net make_net(std::int64_t seed = 7) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  torch::manual_seed(seed);
  return Net();
}

/// Returns the rows of one rank in one step.
inline at::Tensor batch_of(int rank, int step) {
  return at::arange(24, at::kFloat)
      .view({4, 6})
      .mul(0.37)
      .add(rank)
      .sin()
      .add(0.05 * step);
}

inline at::Tensor net_loss(Net& net, const at::Tensor& rows) {
  return net(rows.to(net->tied.device())).pow(2).mean();
}

/// The optimizer that a test uses. The names `torch_…` stand for optimizers
/// from LibTorch; the others are from this library.
enum class Kind { torch_sgd, torch_momentum, torch_adamw, sgd, adamw };

inline std::string name_of(Kind kind) {
  switch (kind) {
    case Kind::torch_sgd:
      return "TorchSGD";
    case Kind::torch_momentum:
      return "TorchMomentum";
    case Kind::torch_adamw:
      return "TorchAdamW";
    case Kind::sgd:
      return "SGD";
    case Kind::adamw:
      return "AdamW";
  }
  return "";
}

inline std::unique_ptr<torch::optim::Optimizer> make_optimizer(
    Kind kind, Net& net) {
  const auto parameters = net->parameters();
  switch (kind) {
    case Kind::torch_sgd:
      return std::make_unique<torch::optim::SGD>(parameters, 0.1);
    case Kind::torch_momentum:
      return std::make_unique<torch::optim::SGD>(
          parameters, torch::optim::SGDOptions(0.1).momentum(0.9));
    case Kind::torch_adamw:
      return std::make_unique<torch::optim::AdamW>(parameters, 0.01);
    case Kind::sgd:
      return std::make_unique<SGD>(parameters, 0.1);
    case Kind::adamw:
      return std::make_unique<AdamW>(parameters, 0.01);
  }
  return nullptr;
}

/// Removes duplicate parameters from the optimizer: a plain loop would update a
/// tied weight twice.
inline void remove_duplicate_parameters(torch::optim::Optimizer& optimizer) {
  for (auto& group : optimizer.param_groups()) {
    std::vector<at::Tensor> unique;
    for (const at::Tensor& parameter : group.params()) {
      if (std::none_of(
              unique.begin(), unique.end(), [&](const at::Tensor& other) {
                return other.is_same(parameter);
              })) {
        unique.push_back(parameter);
      }
    }
    group.params() = unique;
  }
}

/// A plain LibTorch training loop in one process over the rows of `ranks`
/// ranks. Each update uses `micro_batches` batches from each rank.
struct SingleProcessTraining {
  Kind kind = Kind::torch_sgd;
  int ranks = 1;
  int micro_batches = 1;
  int steps = 6;
  /// If true, one forward pass processes all rows of an update. If false, the
  /// rows of each rank are processed separately, and the gradients are summed
  /// in the same order as in distributed training.
  bool one_forward = true;
  /// Whether the forward pass runs in bf16 mixed precision.
  bool bf16 = false;

  Net train() const {
    Net net = make_net();
    net->to(reference_device());
    const auto optimizer = make_optimizer(kind, net);
    remove_duplicate_parameters(*optimizer);
    for (int step = 0; step < steps; step += micro_batches) {
      one_forward ? all_rows(net, step) : each_rank(net, step);
      optimizer->step();
      optimizer->zero_grad();
    }
    return net;
  }

 private:
  at::Tensor loss(Net& net, const at::Tensor& rows) const {
    std::optional<AutocastGuard> guard;
    if (bf16) {
      guard.emplace(
          reference_device().type(),
          Precision::bf16,
          AutocastKwargs{.cache_enabled = false});
    }
    return net_loss(net, rows);
  }

  void all_rows(Net& net, int step) const {
    std::vector<at::Tensor> rows;
    for (int i = 0; i < micro_batches; ++i) {
      for (int rank = 0; rank < ranks; ++rank) {
        rows.push_back(batch_of(rank, step + i));
      }
    }
    loss(net, at::cat(rows)).backward();
  }

  void each_rank(Net& net, int step) const {
    std::vector<at::Tensor> sums(net->parameters().size());
    for (int rank = 0; rank < ranks; ++rank) {
      for (int i = 0; i < micro_batches; ++i) {
        loss(net, batch_of(rank, step + i)).div(micro_batches).backward();
      }
      const auto parameters = net->parameters();
      for (std::size_t p = 0; p < sums.size(); ++p) {
        const at::Tensor grad = parameters[p].grad();
        if (grad.defined() && !is_repeat(parameters, p)) {
          sums[p] = sums[p].defined() ? sums[p].add(grad) : grad.clone();
        }
      }
      net->zero_grad();
    }
    const auto parameters = net->parameters();
    for (std::size_t p = 0; p < sums.size(); ++p) {
      if (sums[p].defined()) {
        parameters[p].mutable_grad() = sums[p].div(ranks);
      }
    }
  }

  static bool is_repeat(const std::vector<at::Tensor>& all, std::size_t p) {
    return std::any_of(
        all.begin(),
        all.begin() + static_cast<std::ptrdiff_t>(p),
        [&](const at::Tensor& other) { return other.is_same(all[p]); });
  }
};

/// Returns the largest absolute difference between corresponding elements of
/// the parameters. Infinite if the numbers of parameters differ.
inline double largest_difference(
    const std::vector<at::Tensor>& actual,
    const std::vector<at::Tensor>& expected) {
  double largest = actual.size() == expected.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
    largest = std::max(
        largest, actual[i].sub(expected[i]).abs().max().item<double>());
  }
  return largest;
}

}  // namespace accelerate
