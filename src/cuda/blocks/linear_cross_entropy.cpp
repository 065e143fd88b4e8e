// SPDX-License-Identifier: Apache-2.0
#include "cuda/blocks/linear_cross_entropy.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "cuda/blocks/gemm.h"
#include "cuda/blocks/low_precision_weights.h"
#include "cuda/blocks/saved.h"
#include "cuda/kernels/cross_entropy.h"

namespace accelerate::cuda {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kLogitBytes = std::int64_t{2} << 30;

// Returns the number of rows per chunk: a multiple of 128 that divides the work
// evenly, and whose logits fit into `kLogitBytes`.
std::int64_t rows_per_chunk(std::int64_t rows, std::int64_t stride) {
  const std::int64_t max_rows =
      std::max<std::int64_t>(kLogitBytes / 2 / stride, 128);
  const std::int64_t parts =
      std::max<std::int64_t>((rows + max_rows - 1) / max_rows, 1);
  return ((rows + parts - 1) / parts + 127) / 128 * 128;
}

// The kernels read one label for each row without further checks.
void check_labels(const at::Tensor& labels, const at::Tensor& x) {
  if (labels.numel() != x.size(0) || labels.device() != x.device()) {
    throw ArgumentError(
        str_cat(
            "the labels do not match the tokens (labels: ",
            labels.numel(),
            " on ",
            labels.device().str(),
            ", tokens: ",
            x.size(0),
            " on ",
            x.device().str(),
            ")"),
        "pass one label for each token, on the model's device");
  }
}

// In pinned memory that the device writes to. Never freed, because captured
// graphs contain its address.
kernels::WrongLabel& wrong_label() {
  static auto* const instance = [] {
    const auto* memory = new at::Tensor(at::zeros(
        {sizeof(kernels::WrongLabel)},
        at::TensorOptions(at::kByte).pinned_memory(true)));
    return static_cast<kernels::WrongLabel*>(memory->data_ptr());
  }();
  return *instance;
}

class LinearCrossEntropy
    : public torch::autograd::Function<LinearCrossEntropy> {
 public:
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& hidden,
      const at::Tensor& weight,
      const at::Tensor& labels) {
    const auto x = as_rows(hidden);
    check_labels(labels, x);
    throw_if_wrong_label();
    const auto w = padded_low_precision_copy_of(weight);
    const auto targets = labels.contiguous();
    const std::int64_t rows = x.size(0);
    const std::int64_t classes = weight.size(0);
    const std::int64_t stride = w.size(0);
    const bool wants_gradients =
        hidden.requires_grad() || weight.requires_grad();
    const cudaStream_t stream = at::cuda::getCurrentCUDAStream().stream();
    const auto float_options = x.options().dtype(at::kFloat);
    const auto counts = at::empty({2}, float_options);
    const auto losses = at::empty({rows}, float_options);
    kernels::count_labels(
        targets.data_ptr<std::int64_t>(),
        rows,
        classes,
        counts.data_ptr<float>(),
        &wrong_label(),
        stream);
    const std::int64_t step = rows_per_chunk(rows, stride);
    const auto buffer = at::empty({std::min(step, rows), stride}, x.options());
    at::Tensor dx;
    at::Tensor dw;
    if (wants_gradients) {
      dx = at::empty_like(x);
      dw = rows > 0 ? at::empty(w.sizes(), float_options)
                    : at::zeros(w.sizes(), float_options);
    }
    for (std::int64_t begin = 0; begin < rows; begin += step) {
      const std::int64_t count = std::min(step, rows - begin);
      const auto chunk = x.narrow(0, begin, count);
      const auto logits = buffer.narrow(0, 0, count);
      gemm_into(logits, chunk, w, {.transpose_b = true});
      kernels::cross_entropy(
          {.type = kernels::Type::bf16,
           .rows = count,
           .classes = classes,
           .stride = stride,
           .columns = stride,
           .logits = logits.data_ptr(),
           .labels = targets.data_ptr<std::int64_t>() + begin,
           .scale = counts.data_ptr<float>() + 1,
           .losses = losses.data_ptr<float>() + begin},
          stream);
      if (wants_gradients) {
        gemm_into(dx.narrow(0, begin, count), logits, w);
        gemm_into(
            dw,
            logits,
            chunk,
            {.transpose_a = true, .add = begin > 0 ? dw : at::Tensor()});
      }
    }
    if (wants_gradients) {
      context->save_for_backward({dx, dw.narrow(0, 0, classes)});
      context->saved_data["sizes"] = hidden.sizes().vec();
    }
    return rows > 0 ? losses.sum() : at::full({}, NAN, float_options);
  }

  static variable_list backward(AutogradContext* context, variable_list d) {
    const variable_list saved = context->get_saved_variables();
    const auto sizes = context->saved_data["sizes"].toIntVector();
    return {saved[0].mul(d[0]).view(sizes), saved[1].mul(d[0]), at::Tensor()};
  }
};

}  // namespace

void throw_if_wrong_label() {
  kernels::WrongLabel& wrong = wrong_label();
  const std::int64_t classes = std::atomic_ref(wrong.classes).exchange(0);
  if (classes != 0) {
    throw ArgumentError(
        str_cat(
            "a label in an earlier step is ",
            std::atomic_ref(wrong.label).load(),
            ", but the vocabulary has ",
            classes,
            " entries"),
        str_cat(
            "pass labels from 0 to ",
            classes - 1,
            ", or -100 for tokens that the loss ignores"));
  }
}

at::Tensor linear_cross_entropy(
    const at::Tensor& hidden,
    const at::Tensor& weight,
    const at::Tensor& labels) {
  return LinearCrossEntropy::apply(hidden, weight, labels);
}

}  // namespace accelerate::cuda
