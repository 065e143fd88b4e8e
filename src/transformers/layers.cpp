// SPDX-License-Identifier: Apache-2.0
#include "transformers/layers.h"

#include <unistd.h>

#include <torch/types.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "device/fused_blocks.h"

namespace transformers {
namespace {

// Configs are untrusted, so sizes are checked before the allocation.
std::int64_t checked(std::int64_t size) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 31;
  if (size < 1 || size > kLargest) {
    throw accelerate::ArgumentError(accelerate::str_cat(
        "the config has a layer of size ",
        size,
        "; sizes must be between 1 and ",
        kLargest));
  }
  return size;
}

at::Tensor empty(at::IntArrayRef sizes) {
  double bytes = sizeof(float);
  for (const std::int64_t size : sizes) {
    bytes *= static_cast<double>(size);
  }
  check_bytes(bytes, accelerate::str_cat("a weight of shape ", sizes));
  return at::empty(sizes, at::TensorOptions().requires_grad(false));
}

}  // namespace

void check_bytes(double bytes, const std::string& part) {
  // Weights that are mapped from files can be several times larger than the
  // memory.
  constexpr double kTimesTheMemory = 4;
  const double memory = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
                        static_cast<double>(::sysconf(_SC_PAGESIZE));
  if (bytes > kTimesTheMemory * memory) {
    throw accelerate::OutOfMemoryError(
        accelerate::str_cat(
            "the config needs ",
            accelerate::format_bytes(bytes),
            " for ",
            part,
            ", but this machine has ",
            accelerate::format_bytes(memory),
            " of memory"),
        "check the sizes in the config");
  }
}

bool Initializer::must_initialize(const at::Tensor& parameter) const {
  return parameter.defined() &&
         !loaded_.contains(parameter.unsafeGetTensorImpl());
}

void Initializer::normal(const at::Tensor& parameter, double std) const {
  if (must_initialize(parameter)) {
    if (std < 0) {
      throw accelerate::ArgumentError(accelerate::str_cat(
          "`initializer_range` is ", std_, ", but must be 0 or more"));
    }
    at::NoGradGuard no_grad;
    parameter.normal_(0.0, std);
  }
}

void Initializer::fill(const at::Tensor& parameter, double value) const {
  if (must_initialize(parameter)) {
    at::NoGradGuard no_grad;
    parameter.fill_(value);
  }
}

void Initializer::copy(
    const at::Tensor& parameter, const at::Tensor& values) const {
  if (must_initialize(parameter)) {
    at::NoGradGuard no_grad;
    parameter.copy_(values);
  }
}

const accelerate::FusedBlocks* Layer::blocks_for(
    const at::Tensor& parameter) const {
  return parameter.scalar_type() == at::kFloat ? blocks_on(parameter.device())
                                               : nullptr;
}

Linear::Linear(std::int64_t in, std::int64_t out, bool with_bias)
    : weight_ED(
          register_parameter("weight", empty({checked(out), checked(in)}))) {
  if (with_bias) {
    bias_E = register_parameter("bias", empty({out}));
  }
}

at::Tensor Linear::operator()(const at::Tensor& x_BTD) const {
  return at::linear(x_BTD, weight_ED, bias_E);
}

void Linear::initialize(const Initializer& init) {
  init.normal(weight_ED);
  init.fill(bias_E, 0.0);
}

Conv1D::Conv1D(std::int64_t out, std::int64_t in)
    : weight_DE(
          register_parameter("weight", empty({checked(in), checked(out)}))),
      bias_E(register_parameter("bias", empty({out}))) {
}

at::Tensor Conv1D::operator()(const at::Tensor& x_BTD) const {
  return at::linear(x_BTD, weight_DE.t(), bias_E);
}

void Conv1D::initialize(const Initializer& init) {
  init.normal(weight_DE);
  init.fill(bias_E, 0.0);
}

Embedding::Embedding(
    std::int64_t rows,
    std::int64_t width,
    std::optional<std::int64_t> padding_idx)
    : weight_VD(
          register_parameter("weight", empty({checked(rows), checked(width)}))),
      padding_idx_(padding_idx.value_or(-1)) {
  if (padding_idx && (*padding_idx < -rows || *padding_idx >= rows)) {
    throw accelerate::ArgumentError(accelerate::str_cat(
        "`pad_token_id` is ",
        *padding_idx,
        ", but the number of rows in the embedding table is ",
        rows));
  }
  if (padding_idx && *padding_idx < 0) {
    padding_idx_ = rows + *padding_idx;
  }
}

at::Tensor Embedding::operator()(const at::Tensor& ids_BT) const {
  if (const auto* fused = blocks_for(weight_VD)) {
    return fused->embedding(weight_VD, ids_BT.to(at::kLong), padding_idx_);
  }
  return at::embedding(weight_VD, ids_BT, padding_idx_);
}

void Embedding::initialize(const Initializer& init) {
  init.normal(weight_VD);
  if (padding_idx_ >= 0 && init.must_initialize(weight_VD)) {
    at::NoGradGuard no_grad;
    weight_VD[padding_idx_].zero_();
  }
}

LayerNorm::LayerNorm(std::int64_t width, double eps)
    : weight_D(register_parameter("weight", empty({checked(width)}))),
      bias_D(register_parameter("bias", empty({width}))),
      eps_(eps) {
}

at::Tensor LayerNorm::operator()(const at::Tensor& x_BTD) const {
  if (const auto* fused = blocks_for(weight_D)) {
    return fused->normalize(x_BTD, weight_D, bias_D, eps_);
  }
  return at::layer_norm(x_BTD, weight_D.sizes(), weight_D, bias_D, eps_);
}

void LayerNorm::initialize(const Initializer& init) {
  init.fill(weight_D, 1.0);
  init.fill(bias_D, 0.0);
}

RmsNorm::RmsNorm(std::int64_t width, double eps)
    : weight_D(register_parameter("weight", empty({checked(width)}))),
      eps_(eps) {
}

at::Tensor RmsNorm::operator()(const at::Tensor& x_BTD) const {
  if (const auto* fused = blocks_for(weight_D)) {
    return fused->normalize(x_BTD, weight_D, {}, eps_);
  }
  // Hugging Face Transformers normalizes in fp32 for any type of weights.
  const auto x32_BTD = x_BTD.to(at::kFloat);
  const auto scale_BT1 =
      x32_BTD.pow(2).mean(-1, /*keepdim=*/true).add(eps_).rsqrt();
  return weight_D * x32_BTD.mul(scale_BT1).to(x_BTD.scalar_type());
}

void RmsNorm::initialize(const Initializer& init) {
  init.fill(weight_D, 1.0);
}

void initialize_all(torch::nn::Module& module, const Initializer& init) {
  for (const auto& child : module.children()) {
    initialize_all(*child, init);
  }
  if (auto* layer = dynamic_cast<Layer*>(&module)) {
    layer->initialize(init);
  }
}

at::Tensor dropout(const at::Tensor& x, double rate, const Layer& layer) {
  if (rate <= 0.0 || !layer.is_training()) {
    return x;
  }
  const auto* fused =
      x.scalar_type() == at::kBFloat16 ? layer.blocks_on(x.device()) : nullptr;
  return fused != nullptr ? fused->dropout(x, rate)
                          : at::dropout(x, rate, true);
}

}  // namespace transformers
