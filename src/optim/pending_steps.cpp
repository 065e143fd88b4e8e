// SPDX-License-Identifier: Apache-2.0
#include "optim/pending_steps.h"

#include <algorithm>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "device/device_library.h"

namespace accelerate {
namespace {

// One row for each possible number of counted steps, one column for each
// parameter group.
at::Tensor table_of(
    std::size_t steps, const PendingSteps::Rates& rates, c10::Device device) {
  std::vector<float> values;
  std::size_t groups = 0;
  for (std::size_t counted = 0; counted <= steps; ++counted) {
    const auto row = rates(static_cast<std::int64_t>(counted));
    groups = row.size();
    for (const double rate : row) {
      values.push_back(static_cast<float>(rate));
    }
  }
  at::Tensor table = at::empty(
      {static_cast<std::int64_t>(steps) + 1, static_cast<std::int64_t>(groups)},
      at::TensorOptions(at::kFloat).pinned_memory(uses_pinned_memory(device)));
  std::copy(values.begin(), values.end(), table.data_ptr<float>());
  return table.to(device, /*non_blocking=*/true);
}

}  // namespace

void PendingSteps::add(
    std::shared_ptr<const SkipFlag> flag, const Rates& rates) {
  const at::NoGradGuard no_grad;
  const at::Tensor& skipped = flag->on_device();
  if (!counted_.defined()) {
    counted_ = at::zeros({1}, skipped.options().dtype(at::kLong));
  }
  counted_.add_(skipped.eq(0).view({1}));
  const at::Tensor selected =
      table_of(flags_.size() + 1, rates, skipped.device())
          .index_select(0, counted_);
  flags_.push_back(std::move(flag));
  for (std::size_t i = 0; i < optimizer_.param_groups().size(); ++i) {
    optimizer_.set_device_lr(
        i, selected.select(1, static_cast<std::int64_t>(i)));
  }
}

bool PendingSteps::pop_oldest() {
  const bool was_skipped = flags_.front()->value();
  flags_.pop_front();
  if (!was_skipped) {
    const at::NoGradGuard no_grad;
    counted_.sub_(1);
  }
  return was_skipped;
}

}  // namespace accelerate
