// SPDX-License-Identifier: Apache-2.0
#include "parallel/sync_batch_norm.h"

#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The arguments of `aten::batch_norm`, in the order of its schema.
struct BatchNormCall {
  explicit BatchNormCall(c10::ArrayRef<c10::IValue> arguments)
      : input(arguments[0].toTensor()),
        weight(tensor_or_undefined(arguments[1])),
        bias(tensor_or_undefined(arguments[2])),
        running_mean(tensor_or_undefined(arguments[3])),
        running_var(tensor_or_undefined(arguments[4])),
        training(arguments[5].toBool()),
        momentum(arguments[6].toDouble()),
        eps(arguments[7].toDouble()) {}

  static at::Tensor tensor_or_undefined(const c10::IValue& argument) {
    return argument.isTensor() ? argument.toTensor() : at::Tensor();
  }

  at::Tensor input, weight, bias, running_mean, running_var;
  bool training;
  double momentum, eps;
};

/// Sums values over the ranks in a forward or backward pass of one batch norm.
struct Sums : torch::CustomClassHolder {
  std::shared_ptr<OperatorCollectives> collectives;
  std::string name;

  /// Gathers one row per rank: the mean and the summed squared deviations of
  /// each channel, and the number of values.
  at::Tensor gather(const at::Tensor& row) const {
    const Group& group = collectives->group();
    // All other rows are zero, so the sum is exact.
    at::Tensor rows = at::zeros({group.size(), row.numel()}, row.options());
    rows[group.rank()].copy_(row);
    collectives->all_reduce(name, rows);
    return rows;
  }
  void add(const at::Tensor& sums) const {
    collectives->all_reduce("backward of " + name, sums);
  }
};

/// The statistics of the values of all ranks.
struct Statistics {
  at::Tensor mean, variance;  // fp64
  at::Tensor count;           // fp64, 0-d
};

at::Tensor in_full_precision(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? tensor : tensor.to(at::kFloat);
}

// All dimensions except the channel dimension.
std::vector<std::int64_t> reduced_dims(const at::Tensor& input) {
  std::vector<std::int64_t> dims = {0};
  for (std::int64_t dim = 2; dim < input.dim(); ++dim) {
    dims.push_back(dim);
  }
  return dims;
}

// A value per channel, in the shape that fits `input`.
at::Tensor per_channel(const at::Tensor& values, const at::Tensor& input) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
  shape[1] = input.size(1);
  return values.view(shape);
}

at::Tensor own_row(const at::Tensor& input) {
  const std::int64_t channels = input.size(1);
  at::Tensor row = at::zeros(
      {2 * channels + 1}, at::device(input.device()).dtype(at::kDouble));
  const std::int64_t count = input.numel() / channels;
  if (count > 0) {
    const auto [variance, mean] = at::var_mean(
        in_full_precision(input),
        reduced_dims(input),
        /*correction=*/at::Scalar(0));
    row.narrow(0, 0, channels).copy_(mean);
    row.narrow(0, channels, channels).copy_(variance).mul_(count);
    row[2 * channels].fill_(count);
  }
  return row;
}

// Combines the rows of the ranks with the parallel Welford algorithm. The
// result adds up the squared deviations from each rank's mean and the squared
// deviations of these means from the common mean.
Statistics combine(const at::Tensor& rows) {
  const std::int64_t channels = (rows.size(1) - 1) / 2;
  const at::Tensor means = rows.narrow(1, 0, channels);
  const at::Tensor squares = rows.narrow(1, channels, channels);
  const at::Tensor counts = rows.narrow(1, 2 * channels, 1);
  const at::Tensor count = counts.sum();
  const at::Tensor at_least_one = count.clamp_min(1);
  const at::Tensor mean = means.mul(counts).sum(0).div(at_least_one);
  const at::Tensor between =
      means.sub(mean).square().mul(counts).sum(0).add(squares.sum(0));
  return {mean, between.div(at_least_one), count};
}

// The running variance uses the unbiased variance. If there are no values,
// nothing changes.
void update_running(const BatchNormCall& call, const Statistics& all) {
  if (!call.running_mean.defined()) {
    return;
  }
  const at::Tensor share = all.count.clamp_max(1).mul(call.momentum);
  const at::Tensor unbiased =
      all.variance.mul(all.count).div(all.count.sub(1).clamp_min(1));
  const auto move = [&](const at::Tensor& running, const at::Tensor& now) {
    const at::Tensor exact = running.to(at::kDouble);
    running.copy_(exact.add(now.sub(exact).mul(share)));
  };
  move(call.running_mean, all.mean);
  move(call.running_var, unbiased);
}

/// Normalizes `input` with the given statistics. The gradient also flows
/// through the statistics, which all ranks share.
class Normalize : public torch::autograd::Function<Normalize> {
 public:
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& input,
      const std::optional<at::Tensor>& weight,
      const std::optional<at::Tensor>& bias,
      const at::Tensor& mean,
      const at::Tensor& inverse_deviation,
      const at::Tensor& count,
      const c10::intrusive_ptr<Sums>& sums) {
    context->save_for_backward(
        {input, weight.value_or(at::Tensor()), mean, inverse_deviation, count});
    context->saved_data["sums"] = c10::IValue::make_capsule(sums);
    context->saved_data["has_bias"] = bias.has_value();
    at::Tensor scale = inverse_deviation;
    if (weight) {
      scale = scale.mul(*weight);
    }
    at::Tensor result = in_full_precision(input).sub(per_channel(mean, input));
    result.mul_(per_channel(scale, input));
    if (bias) {
      result.add_(per_channel(*bias, input));
    }
    return result.to(input.scalar_type());
  }

  static variable_list backward(
      AutogradContext* context, const variable_list& gradients) {
    if (at::GradMode::is_enabled()) {
      throw UnsupportedError(
          "synchronized batch norm does not support second derivatives",
          "leave out `create_graph`, or use ordinary batch norm");
    }
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& input = saved[0];
    const at::Tensor& weight = saved[1];
    const at::Tensor& inverse_deviation = saved[3];
    const at::Tensor gradient = in_full_precision(gradients[0]);
    const at::Tensor deviation =
        in_full_precision(input).sub(per_channel(saved[2], input));
    const auto dims = reduced_dims(input);
    const at::Tensor sum = gradient.sum(dims);
    const at::Tensor sum_of_products = gradient.mul(deviation).sum(dims);

    at::Tensor of_input;
    if (context->needs_input_grad(0)) {
      const auto sums = c10::static_intrusive_pointer_cast<Sums>(
          context->saved_data["sums"].toCapsule());
      const at::Tensor all = at::cat({sum, sum_of_products}).to(at::kDouble);
      sums->add(all);
      const at::Tensor means =
          all.div_(saved[4].clamp_min(1)).to(gradient.scalar_type());
      const std::int64_t channels = input.size(1);
      const at::Tensor slope = means.narrow(0, channels, channels)
                                   .mul(inverse_deviation)
                                   .mul(inverse_deviation);
      const at::Tensor scale =
          weight.defined() ? inverse_deviation.mul(weight) : inverse_deviation;
      of_input = gradient.sub(per_channel(means.narrow(0, 0, channels), input))
                     .sub_(deviation.mul(per_channel(slope, input)))
                     .mul_(per_channel(scale, input))
                     .to(input.scalar_type());
    }
    return {
        of_input,
        weight.defined() ? sum_of_products.mul(inverse_deviation)
                         : at::Tensor(),
        context->saved_data["has_bias"].toBool() ? sum : at::Tensor(),
        {},
        {},
        {},
        {}};
  }
};

std::optional<at::Tensor> optional_of(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

at::Tensor normalize_with_all_ranks(
    const BatchNormCall& call, const c10::intrusive_ptr<Sums>& sums) {
  Statistics all;
  at::Tensor inverse_deviation;
  {
    const at::NoGradGuard guard;
    all = combine(sums->gather(own_row(call.input)));
    update_running(call, all);
    inverse_deviation = all.variance.add(call.eps).rsqrt();
  }
  const auto type =
      call.input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return Normalize::apply(
      call.input,
      optional_of(call.weight),
      optional_of(call.bias),
      all.mean.to(type),
      inverse_deviation.to(type),
      all.count,
      sums);
}

}  // namespace

SyncBatchNorm::SyncBatchNorm(Options options) : options_(std::move(options)) {
}

void SyncBatchNorm::intercept(InterceptedCall& call) {
  if (call.name() != "aten::batch_norm") {
    call.proceed();
    return;
  }
  reached_ = true;
  const BatchNormCall arguments(call.arguments());
  const bool synchronizes =
      options_.collectives && arguments.training &&
      (arguments.running_mean.defined() || options_.is_training());
  if (!synchronizes) {
    call.proceed();
    return;
  }
  const auto sums = c10::make_intrusive<Sums>();
  sums->collectives = options_.collectives;
  sums->name = str_cat(
      "batch norm `",
      options_.name,
      "` of ",
      arguments.input.size(1),
      " channels");
  call.set_result(normalize_with_all_ranks(arguments, sums));
}

}  // namespace accelerate
