// SPDX-License-Identifier: Apache-2.0
#include "cuda/blocks/embedding.h"

#include <optional>

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAGuard.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "cuda/blocks/backward_start.h"
#include "cuda/blocks/low_precision_weights.h"
#include "cuda/blocks/ops.h"
#include "cuda/blocks/saved.h"
#include "cuda/blocks/side_stream.h"
#include "cuda/kernels/embedding.h"
#include "cuda/kernels/summed_embedding.h"

namespace accelerate::cuda {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void check(cudaError_t status) {
  if (status != cudaSuccess) {
    throw InternalError(str_cat(
        "cannot compute the gradient of an embedding: ",
        cudaGetErrorString(status)));
  }
}

cudaStream_t stream() {
  return at::cuda::getCurrentCUDAStream().stream();
}

// The gradient of a table [rows, width] that was looked up at `ids`.
class TableGradient {
 public:
  TableGradient(
      const at::Tensor& ids,
      std::int64_t rows,
      std::int64_t width,
      std::int64_t padding_id)
      : ids_(ids),
        workspace_(at::empty(
            {static_cast<std::int64_t>(
                kernels::embedding_workspace_bytes(ids.numel(), rows, width))},
            ids.options().dtype(at::kByte))),
        d_table_(at::empty({rows, width}, ids.options().dtype(at::kFloat))) {
    work_ = {
        .type = kernels::Type::bf16,
        .ids = ids_.data_ptr<std::int64_t>(),
        .count = ids_.numel(),
        .rows = rows,
        .width = width,
        .padding_id = padding_id,
        .d_table = d_table_.data_ptr<float>(),
        .workspace = workspace_.data_ptr(),
        .workspace_bytes = static_cast<std::size_t>(workspace_.numel())};
  }

  // Tells the allocator that another stream uses this memory too.
  void share_with(c10::cuda::CUDAStream stream) {
    workspace_.record_stream(stream);
    d_table_.record_stream(stream);
  }

  // Does the part of the work that does not need dy.
  void prepare() {
    d_table_.zero_();
    check(kernels::embedding_sort(work_, stream()));
  }

  at::Tensor add(const at::Tensor& dy) {
    work_.dy = dy.data_ptr();
    check(kernels::embedding_sums(work_, stream()));
    return d_table_;
  }

 private:
  at::Tensor ids_, workspace_, d_table_;
  kernels::EmbeddingBackward work_;
};

// In a captured CUDA graph, runs the work that needs only the ids in parallel
// with backward, from the start of backward on.
class OverlappedTableGradient {
 public:
  OverlappedTableGradient(
      const at::Tensor& ids,
      std::int64_t rows,
      std::int64_t width,
      std::int64_t padding_id) {
    c10::cuda::OptionalCUDAStreamGuard guard;
    const auto current_stream = c10::cuda::getCurrentCUDAStream();
    at::cuda::CUDAEvent* const start = backward_start_event();
    if (start != nullptr) {
      thread_local const c10::cuda::CUDAStream side =
          c10::cuda::getStreamFromPool();
      start->block(side);
      guard.reset_stream(side);
    }
    // Allocates on the side stream. The current stream could reuse memory that
    // backward has freed by now, but that was in use at the start of backward.
    gradient_.emplace(ids, rows, width, padding_id);
    gradient_->prepare();
    if (start != nullptr) {
      gradient_->share_with(current_stream);
      done_.record(c10::cuda::getCurrentCUDAStream());
    }
  }

  at::Tensor add(const at::Tensor& dy) {
    if (done_.isCreated()) {
      done_.block(c10::cuda::getCurrentCUDAStream());
    }
    return gradient_->add(dy);
  }

 private:
  std::optional<TableGradient> gradient_;
  at::cuda::CUDAEvent done_;
};

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
    // Uses the bf16 copy of the table if there is one, for example for a tied
    // head.
    const at::Tensor bf16_copy = find_low_precision_copy(table);
    return bf16_copy.defined() ? at::embedding(bf16_copy, ids)
                               : at::embedding(table, ids).to(at::kBFloat16);
  }

  static variable_list backward(AutogradContext* context, variable_list d) {
    const auto ids = context->get_saved_variables()[0].contiguous();
    const auto dy = as_rows(d[0]);
    TableGradient gradient(
        ids,
        context->saved_data["rows"].toInt(),
        dy.size(1),
        context->saved_data["padding_id"].toInt());
    gradient.prepare();
    return {gradient.add(dy), at::Tensor(), at::Tensor()};
  }
};

enum Saved {
  kSum,
  kMean,
  kRstd,
  kWeight,
  kIds,
  kPositionIds,
  kTypeIds,
  kSavedCount
};

class SummedEmbeddingFunction
    : public torch::autograd::Function<SummedEmbeddingFunction> {
 public:
  static at::Tensor forward(
      AutogradContext* context,
      const SummedEmbedding& in,
      const at::Tensor& words,
      const at::Tensor& positions,
      const std::optional<at::Tensor>& types,
      const at::Tensor& weight,
      const at::Tensor& shift) {
    const std::int64_t width = words.size(1);
    const std::int64_t rows = in.ids.numel();
    const auto options = words.options();
    variable_list s(kSavedCount);
    s[kSum] = at::empty({rows, width}, options.dtype(at::kBFloat16));
    s[kMean] = at::empty({rows}, options);
    s[kRstd] = at::empty({rows}, options);
    s[kWeight] = weight.detach();
    s[kIds] = in.ids.contiguous();
    s[kPositionIds] = contiguous_or_undefined(in.position_ids);
    s[kTypeIds] = contiguous_or_undefined(in.type_ids);
    const at::Tensor y = at::empty_like(s[kSum]);
    const auto drawn = draw_dropout(in.dropout);
    kernels::summed_embedding(
        {.rows = rows,
         .tokens = in.ids.size(1),
         .width = width,
         .ids = s[kIds].data_ptr<std::int64_t>(),
         .position_ids = ids_of(s[kPositionIds]),
         .types = ids_of(s[kTypeIds]),
         .words = words.data_ptr<float>(),
         .positions = positions.data_ptr<float>(),
         .type_table = types ? types->data_ptr<float>() : nullptr,
         .word_rows = words.size(0),
         .position_rows = positions.size(0),
         .type_rows = types ? types->size(0) : 0,
         .weight = weight.data_ptr<float>(),
         .shift = shift.data_ptr<float>(),
         .eps = static_cast<float>(in.eps),
         .dropout = drawn,
         .sum = s[kSum].data_ptr(),
         .y = y.data_ptr(),
         .mean = s[kMean].data_ptr<float>(),
         .rstd = s[kRstd].data_ptr<float>()},
        stream());
    context->save_for_backward(s);
    save_dropout(*context, "dropout", drawn);
    context->saved_data["tokens"] = in.ids.size(1);
    context->saved_data["padding_id"] = in.padding_id;
    context->saved_data["padding_position"] = in.padding_position;
    context->saved_data["word_rows"] = words.size(0);
    context->saved_data["position_rows"] = positions.size(0);
    context->saved_data["type_rows"] = types ? types->size(0) : 0;
    return y.view({in.ids.size(0), in.ids.size(1), width});
  }

  static variable_list backward(AutogradContext* context, variable_list d) {
    const variable_list s = context->get_saved_variables();
    const auto number = [&](const char* name) {
      return context->saved_data[name].toInt();
    };
    const std::int64_t width = s[kSum].size(1);
    const auto drawn = saved_dropout(*context, "dropout");
    SideStream side_stream(true);
    OverlappedTableGradient d_words(
        s[kIds], number("word_rows"), width, number("padding_id"));
    std::optional<OverlappedTableGradient> d_positions;
    if (s[kPositionIds].defined()) {
      d_positions.emplace(
          s[kPositionIds],
          number("position_rows"),
          width,
          number("padding_position"));
    }
    const at::Tensor dy = as_rows(d[0]);
    const auto g = norm_gradients(
        drawn.rate > 0.0F ? residual_dropout(dy, {}, {}, drawn) : dy,
        {},
        {s[kSum], s[kMean], s[kRstd], s[kWeight], {}, false},
        side_stream);
    // Without types, all tokens have type 0 here.
    const std::int64_t tokens = number("tokens");
    const bool has_types = number("type_rows") > 0;
    const auto floats = s[kMean].options();
    const auto by_index = at::empty(
        {d_positions ? tokens : number("position_rows"), width}, floats);
    const auto d_types =
        at::empty({has_types ? number("type_rows") : 1, width}, floats);
    const auto workspace =
        at::empty({tokens * d_types.size(0) * width}, floats);
    kernels::position_type_gradients(
        {.rows = dy.size(0),
         .tokens = tokens,
         .width = width,
         .d_sum = g.d_sum.data_ptr(),
         .types = ids_of(s[kTypeIds]),
         .d_positions = by_index.data_ptr<float>(),
         .position_rows = by_index.size(0),
         .d_types = d_types.data_ptr<float>(),
         .type_rows = d_types.size(0),
         .workspace = workspace.data_ptr<float>()},
        stream());
    side_stream.join();
    return {
        at::Tensor(),
        d_words.add(g.d_sum),
        d_positions ? d_positions->add(g.d_sum) : by_index,
        has_types ? d_types : at::Tensor(),
        g.d_weight,
        g.d_shift};
  }

 private:
  static at::Tensor contiguous_or_undefined(const at::Tensor& ids) {
    return ids.defined() ? ids.contiguous() : ids;
  }
  static const std::int64_t* ids_of(const at::Tensor& ids) {
    return ids.defined() ? ids.data_ptr<std::int64_t>() : nullptr;
  }
};

bool is_table(const at::Tensor& table, std::int64_t width) {
  return table.scalar_type() == at::kFloat && table.is_contiguous() &&
         table.size(-1) == width &&
         reinterpret_cast<std::uintptr_t>(table.const_data_ptr()) % 16 == 0;
}

}  // namespace

at::Tensor summed_embedding(const SummedEmbedding& in) {
  constexpr std::int64_t kMaxWidth = 8192;
  const std::int64_t width = in.words.size(1);
  const bool fits =
      width % 8 == 0 && width <= kMaxWidth && is_table(in.words, width) &&
      is_table(in.positions, width) && is_table(in.weight, width) &&
      is_table(in.shift, width) && in.ids.dim() == 2 &&
      (!in.types.defined() ||
       (is_table(in.types, width) &&
        in.types.size(0) <= kernels::PositionTypeGradients::kMaxTypes)) &&
      (in.position_ids.defined() ? in.position_ids.sizes() == in.ids.sizes()
                                 : in.ids.size(1) <= in.positions.size(0)) &&
      (!in.type_ids.defined() || in.type_ids.sizes() == in.ids.sizes());
  if (!fits) {
    return {};
  }
  // An autograd function rejects an undefined tensor, but not an empty
  // optional.
  const auto types =
      in.types.defined() ? std::optional(in.types) : std::nullopt;
  return SummedEmbeddingFunction::apply(
      in, in.words, in.positions, types, in.weight, in.shift);
}

at::Tensor embedding(
    const at::Tensor& table, const at::Tensor& ids, std::int64_t padding_id) {
  return Embedding::apply(table, ids, padding_id);
}

}  // namespace accelerate::cuda
