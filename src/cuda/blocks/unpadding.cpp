// SPDX-License-Identifier: Apache-2.0
#include "cuda/blocks/unpadding.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include "cuda/blocks/ops.h"
#include "cuda/kernels/short_attention.h"
#include "cuda/kernels/unpad.h"

namespace accelerate::cuda {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

cudaStream_t stream() {
  return at::cuda::getCurrentCUDAStream().stream();
}

at::Tensor gathered(const at::Tensor& x, const at::Tensor& index) {
  const at::Tensor from = x.contiguous();
  at::Tensor to = at::empty({index.numel(), x.size(1)}, x.options());
  kernels::take_rows(
      type_of(x),
      from.data_ptr(),
      index.data_ptr<int>(),
      index.numel(),
      x.size(1),
      to.data_ptr(),
      stream());
  return to;
}

class TakeRows : public torch::autograd::Function<TakeRows> {
 public:
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& index,
      const at::Tensor& inverse) {
    context->save_for_backward({inverse});
    return gathered(x, index);
  }
  static variable_list backward(AutogradContext* context, variable_list d) {
    return {
        gathered(d[0], context->get_saved_variables()[0]),
        at::Tensor(),
        at::Tensor()};
  }
};

}  // namespace

UnpaddedBatch unpad(const at::Tensor& mask_BT, std::int64_t rows) {
  const auto is_real = mask_BT.ne(0).contiguous();
  const auto ints = mask_BT.options().dtype(at::kInt);
  const std::int64_t max_length = kernels::kShortTokens;
  const std::int64_t spare_sequences = (rows + max_length - 1) / max_length;
  UnpaddedBatch batch = {
      at::empty({rows}, ints),
      at::empty({mask_BT.numel()}, ints),
      at::empty({mask_BT.size(0) + spare_sequences + 1}, ints)};
  kernels::unpad(
      {.is_real = is_real.data_ptr<bool>(),
       .batch = mask_BT.size(0),
       .tokens = mask_BT.size(1),
       .rows = rows,
       .spare_sequences = spare_sequences,
       .max_length = max_length,
       .source_rows = batch.source_rows.data_ptr<int>(),
       .packed_rows = batch.packed_rows.data_ptr<int>(),
       .sequence_offsets = batch.sequence_offsets.data_ptr<int>()},
      stream());
  return batch;
}

at::Tensor take_rows(
    const at::Tensor& x, const at::Tensor& index, const at::Tensor& inverse) {
  return TakeRows::apply(x, index, inverse);
}

}  // namespace accelerate::cuda
