// SPDX-License-Identifier: Apache-2.0
// bf16 copies of fp32 parameters, for matrix products.
//
// A shadow is made at the first use and follows its parameter: when LibTorch
// says that the parameter changed (its version), the next use copies again.
// Our AdamW writes parameter and shadow in one pass, so that nothing is copied
// then. Parameters whose products are done as one lie together in one shadow.
//
// Thread-safe. A shadow lives as long as its parameter's storage is the same.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace accelerate::cuda {

/// The parameters' shadows under each other, [sum of rows, columns], or end to
/// end for vectors. Parameters that are bf16 already are used as they are.
at::Tensor shadow_of(const std::vector<at::Tensor>& parameters);

inline at::Tensor shadow_of(const at::Tensor& parameter) {
  return shadow_of(std::vector<at::Tensor>{parameter});
}

/// A matrix' shadow with rows of zeros behind, up to a multiple of 64: with an
/// odd number of rows the library has only its slowest products.
at::Tensor padded_shadow_of(const at::Tensor& parameter);

/// The place of a parameter's shadow if it has one that is up to date, for
/// whoever changes both; else undefined.
at::Tensor find_shadow(const at::Tensor& parameter);

/// Tells LibTorch that a parameter has changed. `with_shadow`: what
/// `find_shadow` gave has changed with it.
void note_change(const at::Tensor& parameter, bool with_shadow);

/// Copies again what has changed since, for a graph that is replayed: it has
/// no copy in it.
void refresh_shadows();

}  // namespace accelerate::cuda
