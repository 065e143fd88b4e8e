// SPDX-License-Identifier: Apache-2.0
// The random number generators that `synchronize_rng_state` accepts.
#pragma once

namespace accelerate {

/// A random number generator whose state can be synchronized across processes.
enum class RngType {
  torch,      ///< LibTorch's default CPU generator
  generator,  ///< a generator that the caller passes
  cuda,       ///< LibTorch's default generator for this process's GPU
};

}  // namespace accelerate
