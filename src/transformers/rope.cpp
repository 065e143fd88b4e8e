// SPDX-License-Identifier: Apache-2.0
#include "transformers/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <torch/types.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace transformers {
namespace {

using accelerate::ArgumentError;
using accelerate::str_cat;
using accelerate::UnsupportedError;

constexpr double kTau = 2 * std::numbers::pi;

template <typename Value>
const Value& needed(
    const std::optional<Value>& value,
    const RopeParameters& rope,
    const char* name) {
  if (!value) {
    throw ArgumentError(str_cat(
        "`rope_parameters` of type `", rope.rope_type, "` need `", name, "`"));
  }
  return *value;
}

// base^(2i / D) for each pair of channels.
at::Tensor powers_F(double base, std::int64_t head_dim) {
  return at::pow(base, at::arange(0, head_dim, 2, at::kFloat) / head_dim);
}

double dynamic_base(
    const RopeParameters& rope,
    std::int64_t head_dim,
    std::int64_t max_positions,
    std::int64_t length) {
  const double factor = needed(rope.factor, rope, "factor");
  if (head_dim < 4) {
    throw ArgumentError(str_cat(
        "`rope_parameters` of type `dynamic` need a `head_dim` of 4 or more, "
        "not ",
        head_dim));
  }
  const double stretch =
      factor * static_cast<double>(std::max(length, max_positions)) /
          static_cast<double>(max_positions) -
      (factor - 1);
  return rope.rope_theta *
         std::pow(
             stretch,
             static_cast<double>(head_dim) / static_cast<double>(head_dim - 2));
}

at::Tensor llama3_F(const RopeParameters& rope, std::int64_t head_dim) {
  const double factor = needed(rope.factor, rope, "factor");
  const double low = needed(rope.low_freq_factor, rope, "low_freq_factor");
  const double high = needed(rope.high_freq_factor, rope, "high_freq_factor");
  const auto context = static_cast<double>(needed(
      rope.original_max_position_embeddings,
      rope,
      "original_max_position_embeddings"));
  const auto plain_F = 1.0 / powers_F(rope.rope_theta, head_dim);
  const auto wavelength_F = kTau / plain_F;
  const auto smooth_F = (context / wavelength_F - low) / (high - low);
  const auto mixed_F = (1 - smooth_F) * plain_F / factor + smooth_F * plain_F;
  // Long wavelengths are scaled, short wavelengths are kept, and wavelengths in
  // between are interpolated.
  return at::where(
      wavelength_F > context / low,
      plain_F / factor,
      at::where(wavelength_F < context / high, plain_F, mixed_F));
}

// Returns the channel that completes `rotations` full rotations within the
// context.
double yarn_channel(
    double rotations,
    const RopeParameters& rope,
    std::int64_t head_dim,
    double context) {
  return static_cast<double>(head_dim) *
         std::log(context / (rotations * kTau)) /
         (2 * std::log(rope.rope_theta));
}

at::Tensor yarn_F(
    const RopeParameters& rope, std::int64_t head_dim, double factor) {
  const auto context = static_cast<double>(needed(
      rope.original_max_position_embeddings,
      rope,
      "original_max_position_embeddings"));
  // As in Python, 0 selects the default.
  const auto rotations = [](std::optional<double> value, double otherwise) {
    return value.value_or(0) != 0 ? *value : otherwise;
  };
  double low =
      yarn_channel(rotations(rope.beta_fast, 32), rope, head_dim, context);
  double high =
      yarn_channel(rotations(rope.beta_slow, 1), rope, head_dim, context);
  if (rope.truncate.value_or(true)) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(head_dim - 1));
  if (low == high) {
    high += 0.001;
  }
  const auto stretched_F =
      ((at::arange(head_dim / 2, at::kFloat) - low) / (high - low)).clamp(0, 1);
  const auto powers = powers_F(rope.rope_theta, head_dim);
  return 1.0 / (factor * powers) * stretched_F +
         1.0 / powers * (1 - stretched_F);
}

double yarn_mscale(double scale, double mscale) {
  return scale <= 1 ? 1.0 : 0.1 * mscale * std::log(scale) + 1.0;
}

double yarn_scaling(const RopeParameters& rope, double factor) {
  if (rope.attention_factor) {
    return *rope.attention_factor;
  }
  if (rope.mscale.value_or(0) != 0 && rope.mscale_all_dim.value_or(0) != 0) {
    return yarn_mscale(factor, *rope.mscale) /
           yarn_mscale(factor, *rope.mscale_all_dim);
  }
  return yarn_mscale(factor, 1.0);
}

at::Tensor longrope_F(
    const RopeParameters& rope, std::int64_t head_dim, bool is_long) {
  const std::vector<double>& factors =
      is_long ? needed(rope.long_factor, rope, "long_factor")
              : needed(rope.short_factor, rope, "short_factor");
  if (static_cast<std::int64_t>(factors.size()) * 2 != head_dim) {
    throw ArgumentError(str_cat(
        "`",
        is_long ? "long_factor" : "short_factor",
        "` in `rope_parameters` has length ",
        factors.size(),
        ", but must have length ",
        head_dim / 2,
        ", half of `head_dim`"));
  }
  return 1.0 / (at::tensor(factors, at::kFloat) *
                powers_F(rope.rope_theta, head_dim));
}

double longrope_scaling(const RopeParameters& rope, double factor) {
  if (rope.attention_factor) {
    return *rope.attention_factor;
  }
  return factor <= 1.0
             ? 1.0
             : std::sqrt(
                   1 + std::log(factor) /
                           std::log(static_cast<double>(
                               *rope.original_max_position_embeddings)));
}

}  // namespace

RotaryEmbedding::RotaryEmbedding(
    RopeParameters parameters,
    std::int64_t head_dim,
    std::int64_t max_position_embeddings)
    : parameters_(std::move(parameters)),
      head_dim_(head_dim),
      max_positions_(max_position_embeddings),
      longest_(max_position_embeddings) {
  if (head_dim_ < 2 || head_dim_ % 2 != 0) {
    throw ArgumentError(str_cat(
        "`head_dim` is ",
        head_dim_,
        "; rotary embeddings need a positive even number"));
  }
  RopeParameters& rope = parameters_;
  const bool has_context = rope.rope_type == "yarn" ||
                           rope.rope_type == "longrope" ||
                           rope.rope_type == "llama3";
  if (has_context && !rope.original_max_position_embeddings) {
    rope.original_max_position_embeddings = max_positions_;
  }
  if (has_context && *rope.original_max_position_embeddings < 1) {
    throw ArgumentError(str_cat(
        "`original_max_position_embeddings` is ",
        *rope.original_max_position_embeddings,
        ", but must be 1 or more"));
  }
  inv_freq_F_ = frequencies_F(0);
  if (rope.rope_type == "yarn") {
    scaling_ = yarn_scaling(rope, context_factor());
  } else if (rope.rope_type == "longrope") {
    scaling_ = longrope_scaling(rope, context_factor());
  }
}

double RotaryEmbedding::context_factor() const {
  return parameters_.factor.value_or(
      static_cast<double>(max_positions_) /
      static_cast<double>(*parameters_.original_max_position_embeddings));
}

at::Tensor RotaryEmbedding::frequencies_F(std::int64_t length) const {
  const RopeParameters& rope = parameters_;
  if (rope.rope_type == "default") {
    return 1.0 / powers_F(rope.rope_theta, head_dim_);
  }
  if (rope.rope_type == "linear") {
    return 1.0 / powers_F(rope.rope_theta, head_dim_) /
           needed(rope.factor, rope, "factor");
  }
  if (rope.rope_type == "dynamic") {
    return 1.0 / powers_F(
                     dynamic_base(rope, head_dim_, max_positions_, length),
                     head_dim_);
  }
  if (rope.rope_type == "llama3") {
    return llama3_F(rope, head_dim_);
  }
  if (rope.rope_type == "yarn") {
    return yarn_F(rope, head_dim_, context_factor());
  }
  if (rope.rope_type == "longrope") {
    return longrope_F(
        rope, head_dim_, length > *rope.original_max_position_embeddings);
  }
  throw UnsupportedError(str_cat(
      "`rope_type` is `",
      accelerate::printable(rope.rope_type),
      "`, but must be one of default, linear, dynamic, yarn, longrope, "
      "llama3"));
}

// The types "dynamic" and "longrope" depend on the sequence length.
void RotaryEmbedding::update_frequencies(const at::Tensor& position_ids_BT) {
  const bool is_dynamic = parameters_.rope_type == "dynamic";
  if (!is_dynamic && parameters_.rope_type != "longrope") {
    return;
  }
  const std::int64_t length = position_ids_BT.max().item<std::int64_t>() + 1;
  if (!is_dynamic) {
    inv_freq_F_ = frequencies_F(length);
  } else if (length > longest_) {
    inv_freq_F_ = frequencies_F(length);
    longest_ = length;
  } else if (length < max_positions_ && longest_ > max_positions_) {
    inv_freq_F_ = frequencies_F(0);
    longest_ = max_positions_;
  }
}

std::pair<at::Tensor, at::Tensor> RotaryEmbedding::operator()(
    const at::Tensor& position_ids_BT, at::ScalarType dtype) {
  at::NoGradGuard no_grad;
  update_frequencies(position_ids_BT);
  inv_freq_F_ = inv_freq_F_.to(position_ids_BT.device());
  const auto half_BTF =
      position_ids_BT.unsqueeze(-1).to(at::kFloat) * inv_freq_F_;
  const auto angles_B1TD = at::cat({half_BTF, half_BTF}, -1).unsqueeze(1);
  return {
      (angles_B1TD.cos() * scaling_).to(dtype),
      (angles_B1TD.sin() * scaling_).to(dtype)};
}

at::Tensor rotate(
    const at::Tensor& x_BHTD,
    const at::Tensor& cos_B1TD,
    const at::Tensor& sin_B1TD) {
  const auto halves = x_BHTD.chunk(2, -1);
  return x_BHTD * cos_B1TD + at::cat({-halves[1], halves[0]}, -1) * sin_B1TD;
}

}  // namespace transformers
