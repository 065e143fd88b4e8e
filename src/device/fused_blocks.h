// SPDX-License-Identifier: Apache-2.0
// What an accelerator's library computes as one, for models and optimizers.
//
// Whole blocks of known architectures with their gradients, in bf16 on fp32
// parameters. Models have a readable path beside each, which is what runs
// elsewhere.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "accelerate/export.h"

namespace accelerate {

// Shapes: B batch, T tokens, D width. Results are [B, T, D] in bf16 and can be
// differentiated once. `mask_bias` is added to attention's scores: [B, 1, T, T]
// in bf16, or undefined; up to `kShortSequence` tokens it may be expanded, and
// should be where it is the same for all queries.

/// Tokens of sequences that attention keeps on one processor.
inline constexpr std::int64_t kShortSequence = 128;

/// A layer of BERT. Dropout rates are those of one call, here and below: 0
/// unless training.
struct EncoderBlockOptions {
  std::int64_t heads = 1;
  double layer_norm_eps = 1e-12;
  double attention_dropout = 0.0;
  double hidden_dropout = 0.0;
  /// Whether that goes for what attention gives too; DistilBERT's is kept.
  bool drops_attended = true;
  /// Where sequences of up to `kShortSequence` tokens begin among the T rows of
  /// a batch of 1, and where the last one ends: an `UnpaddedBatch`'s.
  /// Undefined: each row of the batch is one. Heads are then 32 or 64 wide, and
  /// there is no mask.
  at::Tensor starts = {};
};

/// Which rows of a batch are real tokens, [B, T] seen as B T rows.
struct UnpaddedBatch {
  at::Tensor sources;  ///< Of each row without padding: where it was, or -1.
  at::Tensor places;   ///< Of each of the B T rows: where it is, or -1.
  at::Tensor starts;   ///< For `EncoderBlockOptions`; spare rows are sequences.
};

/// What BERT begins with: norm(words + positions + types), then dropout.
/// Tables are fp32, [V, D]; a token's place in its row is its position.
struct SummedEmbedding {
  at::Tensor words;
  at::Tensor positions;  ///< No fewer rows than there are tokens.
  at::Tensor types;
  at::Tensor weight;  ///< The norm's, as `shift`.
  at::Tensor shift;
  at::Tensor ids;       ///< [B, T] in int64, as `type_ids`.
  at::Tensor type_ids;  ///< Undefined: all 0.
  std::int64_t padding_id =
      -1;  ///< A word without a gradient, if not negative.
  double eps = 1e-12;
  double dropout = 0.0;
};

/// A layer of GPT-2.
struct Gpt2BlockOptions {
  std::int64_t heads = 1;
  double layer_norm_eps = 1e-5;
  double attention_dropout = 0.0;
  double residual_dropout = 0.0;
  double attention_scale = 1.0;
};

/// A layer of Llama.
struct LlamaBlockOptions {
  std::int64_t query_heads = 1;
  std::int64_t key_heads = 1;
  double rms_norm_eps = 1e-6;
  double attention_dropout = 0.0;
};

/// One step of AdamW.
struct AdamWStep {
  std::vector<at::Tensor> parameters;  ///< fp32, each dense.
  std::vector<at::Tensor> gradients;   ///< fp32, bf16 or fp16, all alike.
  std::vector<at::Tensor> exp_avgs;    ///< fp32, laid out as the parameters.
  std::vector<at::Tensor> exp_avg_sqs;
  /// Steps of each, with this one: one float each, on the device.
  std::vector<at::Tensor> steps;
  at::Tensor lr = {};  ///< One float on the device; undefined: `lr_value`.
  at::Tensor grad_scale = {};  ///< May be undefined, as `found_inf`.
  at::Tensor found_inf = {};
  double lr_value = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  bool maximize = false;
};

/// Functions, each where cuda/blocks describes it.
struct FusedBlocks {
  using Tensors = std::vector<at::Tensor>;

  at::Tensor (*encoder_block)(
      const at::Tensor& x_BTD,
      const at::Tensor& mask_bias,
      const Tensors& parameters,
      const EncoderBlockOptions& options);
  at::Tensor (*gpt2_block)(
      const at::Tensor& x_BTD,
      const at::Tensor& mask_bias,
      const Tensors& parameters,
      const Gpt2BlockOptions& options);
  at::Tensor (*llama_block)(
      const at::Tensor& x_BTD,
      const at::Tensor& mask_bias,
      const at::Tensor& cos,
      const at::Tensor& sin,
      const Tensors& parameters,
      const LlamaBlockOptions& options);
  at::Tensor (*embedding)(
      const at::Tensor& table, const at::Tensor& ids, std::int64_t padding_id);
  at::Tensor (*normalize)(
      const at::Tensor& x,
      const at::Tensor& weight,
      const at::Tensor& shift,
      double eps);
  at::Tensor (*dropout)(const at::Tensor& x, double rate);
  at::Tensor (*linear_cross_entropy)(
      const at::Tensor& hidden,
      const at::Tensor& weight,
      const at::Tensor& labels);
  void (*adamw_step)(const AdamWStep& work);
  /// Brings the bf16 copies of parameters up to date that something else than
  /// `adamw_step` has changed. Whoever starts recorded blocks calls it before.
  /// Throws `ArgumentError` for a wrong label of an earlier loss, as the loss
  /// itself does.
  void (*refresh)();
  /// `mask_BT` is not 0 for at most `rows` tokens; all in int32.
  UnpaddedBatch (*unpad)(const at::Tensor& mask_BT, std::int64_t rows);
  /// Rows of the matrix x, zeros for -1; `inverse` says for each row of x which
  /// of the result it is, or -1.
  at::Tensor (*take_rows)(
      const at::Tensor& x, const at::Tensor& index, const at::Tensor& inverse);
  /// Undefined where the readable path has to do it.
  at::Tensor (*summed_embedding)(const SummedEmbedding& input);
  /// x W^T + b; `bias` may be undefined.
  at::Tensor (*linear)(
      const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);
};

/// What the open library offers; null where none is open, or none offers it.
ACCELERATE_API const FusedBlocks* fused_blocks();

/// Called by the library when it is opened, and by tests that want the
/// readable path (with null).
ACCELERATE_API void set_fused_blocks(const FusedBlocks* blocks);

}  // namespace accelerate
