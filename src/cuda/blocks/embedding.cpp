// SPDX-License-Identifier: Apache-2.0
#include "cuda/blocks/embedding.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "cuda/blocks/saved.h"
#include "cuda/blocks/shadows.h"
#include "cuda/kernels/embedding.h"

namespace accelerate::cuda {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class Embedding : public torch::autograd::Function<Embedding> {
 public:
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& table,
      const at::Tensor& ids,
      std::int64_t padding_id) {
    context->save_for_backward({ids});
    context->saved_data["rows"] = table.size(0);
    context->saved_data["padding_id"] = padding_id;
    return at::embedding(shadow_of(table), ids);
  }

  static variable_list backward(AutogradContext* context, variable_list d) {
    const auto ids = context->get_saved_variables()[0].contiguous();
    const auto dy = as_rows(d[0]);
    const std::int64_t rows = context->saved_data["rows"].toInt();
    const std::size_t size =
        kernels::embedding_workspace_bytes(ids.numel(), rows, dy.size(1));
    const auto workspace = at::empty(
        {static_cast<std::int64_t>(size)}, dy.options().dtype(at::kByte));
    const auto d_table =
        at::zeros({rows, dy.size(1)}, dy.options().dtype(at::kFloat));
    const cudaError_t status = kernels::embedding_backward(
        {.type = kernels::Type::bf16,
         .ids = ids.data_ptr<std::int64_t>(),
         .dy = dy.data_ptr(),
         .count = ids.numel(),
         .rows = rows,
         .width = dy.size(1),
         .padding_id = context->saved_data["padding_id"].toInt(),
         .d_table = d_table.data_ptr<float>(),
         .workspace = workspace.data_ptr(),
         .workspace_bytes = size},
        at::cuda::getCurrentCUDAStream().stream());
    if (status != cudaSuccess) {
      throw InternalError(str_cat(
          "the gradient of an embedding: ", cudaGetErrorString(status)));
    }
    return {d_table, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor embedding(
    const at::Tensor& table, const at::Tensor& ids, std::int64_t padding_id) {
  return Embedding::apply(table, ids, padding_id);
}

}  // namespace accelerate::cuda
