// SPDX-License-Identifier: Apache-2.0
// A simple reference implementation of the sharding rules, for tests.
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "accelerate/sharding.h"

namespace accelerate {

struct ReferenceBatch {
  std::vector<std::int64_t> samples;
  std::int64_t valid_rows = 0;

  bool operator==(const ReferenceBatch&) const = default;
};

inline std::ostream& operator<<(
    std::ostream& out, const ReferenceBatch& batch) {
  out << "{";
  for (const std::int64_t sample : batch.samples) {
    out << sample << " ";
  }
  return out << "| " << batch.valid_rows << "}";
}

inline std::string name_of_case(std::int64_t n, const ShardRules& rules) {
  return "n " + std::to_string(n) + ", B " + std::to_string(rules.batch_size) +
         ", P " + std::to_string(rules.num_processes) + ", process " +
         std::to_string(rules.process_index) +
         (rules.split_batches ? ", split" : "") +
         (rules.even_batches ? ", even" : "") +
         (rules.drop_last ? ", drop_last" : "") +
         (rules.dispatch_batches ? ", dispatch" : "");
}

/// Returns the samples of each step, for all processes together; the last step
/// may be incomplete.
inline std::vector<std::vector<std::int64_t>> reference_steps(
    std::int64_t n, const ShardRules& rules) {
  const auto per_step = static_cast<std::size_t>(
      rules.split_batches ? rules.batch_size
                          : rules.batch_size * rules.num_processes);
  std::vector<std::vector<std::int64_t>> steps;
  for (std::int64_t i = 0; i < n; ++i) {
    if (steps.empty() || steps.back().size() == per_step) {
      steps.emplace_back();
    }
    steps.back().push_back(i);
  }
  if (rules.drop_last && !steps.empty() && steps.back().size() < per_step) {
    steps.pop_back();
  }
  return steps;
}

/// Splits the samples of one step into one block for each process.
inline std::vector<ReferenceBatch> reference_split(
    std::vector<std::int64_t> step,
    const std::vector<std::int64_t>& first_step,
    const ShardRules& rules) {
  const auto p = static_cast<std::size_t>(rules.num_processes);
  const std::size_t real = step.size();
  std::size_t block = static_cast<std::size_t>(
      rules.split_batches ? rules.batch_size / rules.num_processes
                          : rules.batch_size);
  const bool short_step = real < block * p;
  if (rules.dispatch_batches) {
    block = (real + p - 1) / p;
  }
  if (rules.even_batches) {
    for (std::size_t i = 0; step.size() < block * p; ++i) {
      step.push_back(first_step[i % first_step.size()]);
    }
  }
  std::vector<ReferenceBatch> batches(p);
  for (std::size_t i = 0; i < step.size(); ++i) {
    std::size_t owner = i / block;
    if (rules.dispatch_batches && !rules.even_batches && short_step) {
      // Parts of nearly equal size, the larger parts first.
      const std::size_t rest = real % p;
      const std::size_t least = real / p;
      owner = i < rest * (least + 1)
                  ? i / (least + 1)
                  : (i - rest) / std::max<std::size_t>(least, 1);
    }
    batches[owner].samples.push_back(step[i]);
    batches[owner].valid_rows += i < real ? 1 : 0;
  }
  return batches;
}

/// Returns all batches of one process.
inline std::vector<ReferenceBatch> reference_batches(
    std::int64_t n, const ShardRules& rules) {
  std::vector<ReferenceBatch> batches;
  const auto steps = reference_steps(n, rules);
  for (const auto& step : steps) {
    auto parts = reference_split(step, steps.front(), rules);
    auto& batch = parts[static_cast<std::size_t>(rules.process_index)];
    if (!batch.samples.empty()) {
      batches.push_back(batch);
    }
  }
  return batches;
}

/// Calls `check(n, rules)` for every combination of sharding rules with small
/// numbers.
inline void for_all_small_cases(
    const std::function<void(std::int64_t, const ShardRules&)>& check) {
  for (std::int64_t n = 0; n <= 26; ++n) {
    for (const std::int64_t batch_size : {1, 2, 3, 6}) {
      for (const std::int64_t p : {1, 2, 3, 5}) {
        for (int bits = 0; bits < 16; ++bits) {
          ShardRules rules{.batch_size = batch_size, .num_processes = p};
          rules.split_batches = (bits & 1) != 0;
          rules.even_batches = (bits & 2) != 0;
          rules.drop_last = (bits & 4) != 0;
          rules.dispatch_batches = (bits & 8) != 0;
          if (rules.split_batches && batch_size % p != 0) {
            continue;
          }
          for (rules.process_index = 0; rules.process_index < p;
               ++rules.process_index) {
            check(n, rules);
          }
        }
      }
    }
  }
}

}  // namespace accelerate
