// SPDX-License-Identifier: Apache-2.0
// A model as a user writes one, of `torch::nn` alone; gpu_step_module.py is the
// same in Python.
#pragma once

#include <torch/nn.h>

/// An encoder of 6 layers, 768 wide, that classifies [T, B, D] by its first
/// token.
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
