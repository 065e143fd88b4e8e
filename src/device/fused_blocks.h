// SPDX-License-Identifier: Apache-2.0
// Fused operations that an accelerator's library provides to models and
// optimizers.
//
// Most of these operations are whole transformer blocks, with their gradients.
// The description of a block states what the block computes: its norms, its
// activation and its attention. The operations compute in bf16 and keep fp32
// master weights. For each block, models also have a reference path, which they
// use if the library does not provide the block.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace accelerate {

// Shapes: B batch, T tokens, D width. Results are [B, T, D] in bf16 and can be
// differentiated once. `mask_bias` is added to the attention scores. The bias
// is [B, 1, T, T] in bf16, or undefined. If the bias is the same for all
// queries and T is at most `kShortSequence`, pass an expanded view, because
// faster attention kernels can then be used. For more tokens, pass a contiguous
// tensor, because each block would otherwise copy the view.

/// The longest sequence, in tokens, for which attention keeps all intermediate
/// results on one SM.
inline constexpr std::int64_t kShortSequence = 128;

/// The kind of norm in a block.
enum class NormKind { layer_norm, rms_norm };

/// The activation function of a block's MLP.
enum class ActivationKind { gelu_erf, gelu_tanh, silu, other };

/// How a decoder block gets the positions of its tokens. `learned`: the
/// position embeddings are part of the input of the first block. `rotary`: each
/// block rotates its queries and keys.
enum class PositionKind { learned, rotary };

/// Describes an encoder block: each token attends to all tokens, there is a
/// LayerNorm after each residual addition, and each linear layer has a bias.
/// The dropout rates apply to one call; the caller must pass 0 outside
/// training.
struct EncoderBlockOptions {
  ActivationKind activation = ActivationKind::gelu_erf;
  std::int64_t heads = 1;
  double layer_norm_eps = 1e-12;
  double attention_dropout = 0.0;
  double hidden_dropout = 0.0;
  /// Whether `hidden_dropout` also applies to the output of attention.
  bool drops_attention_output = true;
  /// The `sequence_offsets` of the `UnpaddedBatch`, if the batch is unpadded,
  /// that is, one row of T tokens. In this case, each sequence must have at
  /// most `kShortSequence` tokens, each head must have 32 or 64 channels, and
  /// there must be no mask. If undefined, each row of the batch is one
  /// sequence.
  at::Tensor sequence_offsets = {};
};

/// Describes how the real tokens in a padded batch, viewed as B * T rows, are
/// packed into fewer rows. Packed rows that hold no token are called spare
/// rows.
struct UnpaddedBatch {
  /// For each packed row, the index of its row in the padded batch; -1 for a
  /// spare row.
  at::Tensor source_rows;
  /// For each of the B * T rows in the padded batch, the index of its packed
  /// row; -1 for padding.
  at::Tensor packed_rows;
  /// The index of the first packed row of each sequence, followed by the number
  /// of packed rows (`cu_seqlens` in other libraries). Spare rows form
  /// additional sequences at the end.
  at::Tensor sequence_offsets;
};

/// The input of `FusedBlocks::summed_embedding`, which computes
/// norm(words + positions + types), then dropout. The tables `words`,
/// `positions` and `types` are fp32 with D columns.
struct SummedEmbedding {
  at::Tensor words;
  at::Tensor positions;
  at::Tensor types;   ///< If undefined, there are no token types.
  at::Tensor weight;  ///< The norm's weight.
  at::Tensor shift;   ///< The norm's bias.
  at::Tensor ids;     ///< [B, T] in int64.
  /// [B, T] in int64. If undefined, the position of a token is its index in its
  /// sequence, and `positions` must have at least T rows.
  at::Tensor position_ids;
  at::Tensor type_ids;  ///< [B, T] in int64; if undefined, all 0.
  /// The row of `words` with this index gets no gradient. If negative, every
  /// row gets a gradient.
  std::int64_t padding_id = -1;
  /// Like `padding_id`, for the rows of `positions`. Used only with
  /// `position_ids`.
  std::int64_t padding_position = -1;
  double eps = 1e-12;
  double dropout = 0.0;
};

/// Describes a decoder block: a token attends to itself and to earlier tokens,
/// and there is a norm before attention and before the MLP. The dropout rates
/// apply to one call; the caller must pass 0 outside training.
struct DecoderBlockOptions {
  NormKind norm = NormKind::layer_norm;
  ActivationKind activation = ActivationKind::gelu_tanh;
  PositionKind positions = PositionKind::learned;
  /// Whether the MLP computes down(activation(gate(x)) * up(x)) instead of
  /// outer(activation(inner(x))).
  bool has_gated_mlp = false;
  bool has_biases = true;
  std::int64_t query_heads = 1;
  /// The number of heads for keys and values. If it is less than `query_heads`,
  /// several query heads use the same key head.
  std::int64_t key_heads = 1;
  double norm_eps = 1e-5;
  /// The factor by which attention scores are multiplied.
  double attention_scale = 1.0;
  double attention_dropout = 0.0;
  /// The dropout rate for the output of attention and the output of the MLP.
  double residual_dropout = 0.0;
  /// The rotary embedding, [1 or B, T, channels per head] in fp32. Undefined
  /// for learned positions.
  at::Tensor cos = {};
  at::Tensor sin = {};
};

/// The tensors and hyperparameters for one AdamW step.
struct AdamWStep {
  std::vector<at::Tensor> parameters;  ///< fp32; each tensor is dense.
  std::vector<at::Tensor> gradients;   ///< All fp32, all bf16 or all fp16.
  std::vector<at::Tensor> exp_avgs;    ///< fp32, with the parameters' layout.
  std::vector<at::Tensor> exp_avg_sqs;
  /// For each parameter, its step count including this step, as one float on
  /// the device.
  std::vector<at::Tensor> steps;
  /// The learning rate, one float on the device. If undefined, `lr_value` is
  /// used.
  at::Tensor lr = {};
  /// Gradients are divided by this value, one float on the device. May be
  /// undefined.
  at::Tensor grad_scale = {};
  /// If this value, one float on the device, is not zero, the step changes
  /// nothing. May be undefined.
  at::Tensor found_inf = {};
  double lr_value = 0.0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;
  bool maximize = false;
};

/// The version of `FusedBlocks` and of the structs above. It is incremented
/// whenever one of them changes.
inline constexpr std::uint32_t kFusedBlocksVersion = 4;

/// The fused operations as function pointers. The headers in cuda/blocks
/// describe each function.
struct FusedBlocks {
  using Tensors = std::vector<at::Tensor>;

  /// Returns whether `encoder_block` computes the block that `options`
  /// describes, with heads of `head_dim` channels. The dropout rates in
  /// `options` must be the highest rates that the caller will use. Models call
  /// this function once, in `prepare`.
  bool (*supports_encoder_block)(
      const EncoderBlockOptions& options, std::int64_t head_dim);
  /// Like `supports_encoder_block`, but for `decoder_block`.
  bool (*supports_decoder_block)(
      const DecoderBlockOptions& options, std::int64_t head_dim);
  /// Returns whether `encoder_block` accepts `sequence_offsets` for heads of
  /// `head_dim` channels.
  bool (*supports_unpadding)(std::int64_t head_dim);
  /// Returns whether the blocks accept rows of `tokens` tokens. The result
  /// depends on whether LibTorch's deterministic algorithms are enabled.
  bool (*supports_length)(std::int64_t tokens);

  at::Tensor (*encoder_block)(
      const at::Tensor& x_BTD,
      const at::Tensor& mask_bias,
      const Tensors& parameters,
      const EncoderBlockOptions& options);
  at::Tensor (*decoder_block)(
      const at::Tensor& x_BTD,
      const at::Tensor& mask_bias,
      const Tensors& parameters,
      const DecoderBlockOptions& options);
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
  void (*adamw_step)(const AdamWStep& step);
  /// The caller must call this function before it replays a graph that contains
  /// fused blocks. Updates the bf16 copies of parameters that have been changed
  /// by anything other than `adamw_step`. Throws `ArgumentError` if
  /// `linear_cross_entropy` got an invalid label that has not been reported
  /// yet.
  void (*before_replay)();
  /// Packs the tokens for which `mask_BT` is nonzero into `rows` rows. There
  /// must be at most `rows` such tokens. The tensors in the result are int32.
  UnpaddedBatch (*unpad)(const at::Tensor& mask_BT, std::int64_t rows);
  /// Returns a matrix whose row i is row `index[i]` of `x`, or zeros if
  /// `index[i]` is -1. For each row of `x`, `inverse` must contain the index of
  /// that row in the result, or -1 if the row is not in the result.
  at::Tensor (*take_rows)(
      const at::Tensor& x, const at::Tensor& index, const at::Tensor& inverse);
  /// Computes the sum of embeddings that `input` describes. Returns an
  /// undefined tensor if no kernel supports the sizes of `input`; the caller
  /// must then use the reference path.
  at::Tensor (*summed_embedding)(const SummedEmbedding& input);
  /// Computes x W^T + b; `bias` may be undefined.
  at::Tensor (*linear)(
      const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias);

  /// Starts copying the only element of each tensor to `to`, which must be
  /// pinned host memory: floating-point numbers as fp64, other numbers as
  /// 64-bit integers. All tensors must be on one device. Returns false and does
  /// nothing if the type of a tensor is not supported.
  bool (*copy_numbers)(const Tensors& tensors, std::int64_t* to);
};

}  // namespace accelerate
