// SPDX-License-Identifier: Apache-2.0
// Models that are small enough to run in milliseconds.
#pragma once

#include <torch/types.h>

#include "accelerate/tensor_map.h"
#include "transformers/configuration.h"

namespace transformers {

inline BertConfig tiny_bert() {
  return {
      .vocab_size = 50,
      .hidden_size = 16,
      .num_hidden_layers = 2,
      .num_attention_heads = 2,
      .intermediate_size = 24,
      .max_position_embeddings = 20};
}

inline GPT2Config tiny_gpt2() {
  return {
      .vocab_size = 50,
      .n_positions = 20,
      .n_embd = 16,
      .n_layer = 2,
      .n_head = 2,
      .pad_token_id = 0};
}

inline accelerate::TensorMap tiny_batch() {
  return {
      {"input_ids", at::arange(12).remainder(50).view({2, 6}) + 1},
      {"labels", at::tensor({0, 1}, at::kLong)}};
}

}  // namespace transformers
