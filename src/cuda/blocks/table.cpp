// SPDX-License-Identifier: Apache-2.0
#include "cuda/blocks/table.h"

#include "cuda/blocks/adamw_step.h"
#include "cuda/blocks/attention.h"
#include "cuda/blocks/decoder_block.h"
#include "cuda/blocks/embedding.h"
#include "cuda/blocks/encoder_block.h"
#include "cuda/blocks/linear.h"
#include "cuda/blocks/linear_cross_entropy.h"
#include "cuda/blocks/low_precision_weights.h"
#include "cuda/blocks/norm_function.h"
#include "cuda/blocks/numbers.h"
#include "cuda/blocks/unpadding.h"

namespace accelerate::cuda {
namespace {

void before_replay() {
  throw_if_wrong_label();
  refresh_low_precision_copies();
}

}  // namespace

const FusedBlocks& fused_block_table() {
  static constexpr FusedBlocks kTable = {
      .supports_encoder_block = supports_encoder_block,
      .supports_decoder_block = supports_decoder_block,
      .supports_unpadding = supports_unpadding,
      .supports_length = supports_length,
      .encoder_block = encoder_block,
      .decoder_block = decoder_block,
      .embedding = embedding,
      .normalize = normalize,
      .dropout = dropout,
      .linear_cross_entropy = linear_cross_entropy,
      .adamw_step = adamw_step,
      .before_replay = before_replay,
      .unpad = unpad,
      .take_rows = take_rows,
      .summed_embedding = summed_embedding,
      .linear = linear,
      .copy_numbers = copy_numbers};
  return kTable;
}

}  // namespace accelerate::cuda
