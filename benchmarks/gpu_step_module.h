// SPDX-License-Identifier: Apache-2.0
// A user-written model that uses only `torch::nn`; gpu_step_module.py contains
// the same model in Python.
#pragma once

#include <torch/nn.h>

/// An encoder with 6 layers and a width of 768. The encoder classifies inputs
/// of shape [T, B, D] by their first token.
struct PlainModuleImpl : torch::nn::Module {
  PlainModuleImpl() {
    encoder = register_module(
        "encoder",
        torch::nn::TransformerEncoder(torch::nn::TransformerEncoderOptions(
            torch::nn::TransformerEncoderLayerOptions(768, 12)
                .dim_feedforward(3072)
                .dropout(0.1)
                .activation(torch::kGELU),
            6)));
    head = register_module("head", torch::nn::Linear(768, 2));
  }
  at::Tensor forward(const at::Tensor& x_TBD) {
    return head(encoder(x_TBD)[0]);
  }

  torch::nn::TransformerEncoder encoder{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(PlainModule);
