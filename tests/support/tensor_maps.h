// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "accelerate/tensor_map.h"

namespace accelerate {

inline void expect_same_tensors(
    const TensorMap& actual, const TensorMap& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    EXPECT_TRUE(at::equal(actual.at(name), tensor)) << name;
  }
}

inline TensorMap copies_of(const TensorMap& tensors) {
  TensorMap copies;
  for (const auto& [name, tensor] : tensors) {
    copies[name] = tensor.detach().clone();
  }
  return copies;
}

}  // namespace accelerate
