// SPDX-License-Identifier: Apache-2.0
// Test cases in which distributed training must match training in one process
// with the same global batch. Ranks are threads or real processes.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/accelerator.h"
#include "accelerate/accelerator_nests.h"
#include "accelerate/autocast.h"
#include "accelerate/data_loader.h"
#include "support/reference_shards.h"
#include "support/training.h"

namespace accelerate {

struct NumberedRows {
  std::int64_t n = 0;
  std::int64_t size() const { return n; }
  at::Tensor get(std::int64_t index) const {
    return at::arange(6, at::kFloat)
        .add(static_cast<double>(index))
        .mul(0.3)
        .sin();
  }

  at::Tensor batch(const std::vector<std::int64_t>& samples) const {
    std::vector<at::Tensor> rows;
    for (const std::int64_t sample : samples) {
      rows.push_back(get(sample));
    }
    return at::stack(rows);
  }
};

/// Trains in one process on the batches of all ranks. Each update uses `micro`
/// batches from each rank; the last update may use fewer.
inline Net trained_on_shards(
    const NumberedRows& data, const ShardRules& rules, Kind kind, int micro) {
  Net net = make_net();
  net->to(reference_device());
  const auto optimizer = make_optimizer(kind, net);
  remove_duplicate_parameters(*optimizer);
  std::vector<std::vector<ReferenceBatch>> batches;
  std::size_t steps = 0;
  for (int rank = 0; rank < rules.num_processes; ++rank) {
    ShardRules rank_rules = rules;
    rank_rules.process_index = rank;
    batches.push_back(reference_batches(data.n, rank_rules));
    steps = std::max(steps, batches.back().size());
  }
  for (std::size_t step = 0; step < steps; ++step) {
    for (const auto& rank_batches : batches) {
      if (step < rank_batches.size()) {
        net_loss(net, data.batch(rank_batches[step].samples))
            .div(static_cast<double>(rules.num_processes * micro))
            .backward();
      }
    }
    if ((step + 1) % static_cast<std::size_t>(micro) == 0 ||
        step + 1 == steps) {
      optimizer->step();
      optimizer->zero_grad();
    }
  }
  return net;
}

/// Trains on 23 rows in batches of 4. If `even` is true, the last batches are
/// padded. If `even` is false, some ranks may have one batch fewer and join
/// early (see `join_uneven_inputs`). Returns the largest difference from
/// training in one process.
inline double uneven_data(Accelerator& accelerator, Kind kind, bool even) {
  const NumberedRows data{23};
  const int ranks = static_cast<int>(accelerator.num_processes());
  Net net = make_net();
  const auto optimizer = make_optimizer(kind, net);
  DataLoader loader(data, {.batch_size = 4});
  accelerator.prepare(net, *optimizer, loader);
  {
    const auto join = accelerator.join_uneven_inputs(even);
    for (auto& batch : loader) {
      const auto region = accelerator.accumulate();
      accelerator.backward(net_loss(net, batch));
      optimizer->step();
      optimizer->zero_grad();
    }
  }
  const Net reference = trained_on_shards(
      data,
      {.batch_size = 4,
       .num_processes = ranks,
       .even_batches = even && ranks > 1},
      kind,
      static_cast<int>(accelerator.gradient_accumulation_steps()));
  return largest_difference(net->parameters(), reference->parameters());
}

/// Trains two models, each with its own optimizer. Every other update trains
/// only one of the models. Returns the largest difference from training in one
/// process.
inline double two_models(Accelerator& accelerator, Kind kind) {
  const int ranks = static_cast<int>(accelerator.num_processes());
  const int own_rank = static_cast<int>(accelerator.process_index());
  const int micro = static_cast<int>(accelerator.gradient_accumulation_steps());
  struct Pair {
    Net a = make_net(1);
    Net b = make_net(2);
    std::unique_ptr<torch::optim::Optimizer> first, second;
  };
  Pair distributed;
  Pair reference;
  for (Pair* pair : {&distributed, &reference}) {
    pair->first = make_optimizer(Kind::sgd, pair->a);
    pair->second = make_optimizer(kind, pair->b);
  }
  remove_duplicate_parameters(*reference.second);
  reference.a->to(reference_device());
  reference.b->to(reference_device());
  accelerator.prepare(
      distributed.a, *distributed.second, distributed.b, *distributed.first);
  const auto loss = [](Pair& pair, int rank, int step, bool both) {
    const auto rows = batch_of(rank, step);
    const auto loss_b = net_loss(pair.b, rows);
    return both ? loss_b.add(net_loss(pair.a, rows)) : loss_b;
  };
  const auto update = [](Pair& pair) {
    for (auto* optimizer : {pair.first.get(), pair.second.get()}) {
      optimizer->step();
      optimizer->zero_grad();
    }
  };
  for (int step = 0; step < 4 * micro; ++step) {
    const bool both = step / micro % 2 == 0;
    const auto region = accelerator.accumulate();
    accelerator.backward(loss(distributed, own_rank, step, both));
    update(distributed);
    for (int rank = 0; rank < ranks; ++rank) {
      loss(reference, rank, step, both).div(ranks * micro).backward();
    }
    if ((step + 1) % micro == 0) {
      update(reference);
    }
  }
  return std::max(
      largest_difference(
          distributed.a->parameters(), reference.a->parameters()),
      largest_difference(
          distributed.b->parameters(), reference.b->parameters()));
}

/// Trains in bf16 mixed precision. Autocast is enabled by a guard if `guarded`
/// is true, else by `prepare`. Returns the largest difference from training in
/// one process. That training computes the gradients of each rank separately,
/// because autocast rounds them to bf16 before they are summed.
inline double in_bf16(
    const std::function<Accelerator()>& make, Kind kind, bool guarded) {
  SingleProcessTraining reference{
      .kind = kind, .one_forward = false, .bf16 = true};
  Net net = make_net();
  {
    Accelerator accelerator = make();
    reference.ranks = static_cast<int>(accelerator.num_processes());
    reference.micro_batches =
        static_cast<int>(accelerator.gradient_accumulation_steps());
    const int rank = static_cast<int>(accelerator.process_index());
    const auto optimizer = make_optimizer(kind, net);
    accelerator.prepare(net, *optimizer);
    for (int step = 0; step < reference.steps; ++step) {
      const auto region = accelerator.accumulate();
      std::unique_ptr<AutocastGuard> guard;
      if (guarded) {
        guard = accelerator.autocast({.cache_enabled = false});
      }
      const at::Tensor loss = net_loss(net, batch_of(rank, step));
      guard.reset();
      accelerator.backward(loss);
      optimizer->step();
      optimizer->zero_grad();
    }
    accelerator.free_memory();
  }
  return largest_difference(net->parameters(), reference.train()->parameters());
}

}  // namespace accelerate
