// SPDX-License-Identifier: Apache-2.0
// Training that must end like that of one process with the same global batch:
// the same cases for ranks in threads and for real processes.
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
#include "support/slow_shards.h"
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

/// One process that goes through the batches of all ranks, `micro` of each in
/// an update; the last update has what is left.
inline Net trained_on_shards(
    const NumberedRows& data, const ShardRules& rules, Kind kind, int micro) {
  Net net = make_net();
  const auto optimizer = make_optimizer(kind, net);
  list_once(*optimizer);
  std::vector<std::vector<SlowBatch>> batches;
  std::size_t steps = 0;
  for (int rank = 0; rank < rules.num_processes; ++rank) {
    ShardRules its = rules;
    its.process_index = rank;
    batches.push_back(slow_batches(data.n, its));
    steps = std::max(steps, batches.back().size());
  }
  for (std::size_t step = 0; step < steps; ++step) {
    for (const auto& of_rank : batches) {
      if (step < of_rank.size()) {
        net_loss(net, data.batch(of_rank[step].samples))
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

/// 23 rows in batches of 4: the last ones are filled up, or their ranks joined.
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
  const Net alone = trained_on_shards(
      data,
      {.batch_size = 4,
       .num_processes = ranks,
       .even_batches = even && ranks > 1},
      kind,
      static_cast<int>(accelerator.gradient_accumulation_steps()));
  return largest_difference(net->parameters(), alone->parameters());
}

/// Two models, an optimizer each. Of every two updates the first goes through
/// both, the second through one alone.
inline double two_models(Accelerator& accelerator, Kind kind) {
  const int ranks = static_cast<int>(accelerator.num_processes());
  const int mine = static_cast<int>(accelerator.process_index());
  const int micro = static_cast<int>(accelerator.gradient_accumulation_steps());
  struct Pair {
    Net a = make_net(1);
    Net b = make_net(2);
    std::unique_ptr<torch::optim::Optimizer> first, second;
  };
  Pair ours;
  Pair alone;
  for (Pair* pair : {&ours, &alone}) {
    pair->first = make_optimizer(Kind::our_sgd, pair->a);
    pair->second = make_optimizer(kind, pair->b);
  }
  list_once(*alone.second);
  accelerator.prepare(ours.a, *ours.second, ours.b, *ours.first);
  const auto loss = [](Pair& pair, int rank, int step, bool both) {
    const auto rows = batch_of(rank, step);
    const auto one = net_loss(pair.b, rows);
    return both ? one.add(net_loss(pair.a, rows)) : one;
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
    accelerator.backward(loss(ours, mine, step, both));
    update(ours);
    for (int rank = 0; rank < ranks; ++rank) {
      loss(alone, rank, step, both).div(ranks * micro).backward();
    }
    if ((step + 1) % micro == 0) {
      update(alone);
    }
  }
  return std::max(
      largest_difference(ours.a->parameters(), alone.a->parameters()),
      largest_difference(ours.b->parameters(), alone.b->parameters()));
}

/// Mixed precision, with autocast kept on by `prepare` or by a guard. bf16
/// rounds each rank's gradients before they are summed, and so does the
/// reference.
inline double in_bf16(
    const std::function<Accelerator()>& make, Kind kind, bool guarded) {
  Alone alone{.kind = kind, .one_forward = false, .bf16 = true};
  Net net = make_net();
  {
    Accelerator accelerator = make();
    alone.ranks = static_cast<int>(accelerator.num_processes());
    alone.micro = static_cast<int>(accelerator.gradient_accumulation_steps());
    const int rank = static_cast<int>(accelerator.process_index());
    const auto optimizer = make_optimizer(kind, net);
    accelerator.prepare(net, *optimizer);
    for (int step = 0; step < alone.steps; ++step) {
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
  return largest_difference(net->parameters(), alone.train()->parameters());
}

}  // namespace accelerate
