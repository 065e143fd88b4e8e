// SPDX-License-Identifier: Apache-2.0
// Kinds of random numbers that processes can share.
#pragma once

namespace accelerate {

/// Which random numbers are meant.
enum class RngType {
  torch,      ///< LibTorch's default generator of the CPU
  generator,  ///< one that the caller passes
  cuda,       ///< LibTorch's default generator of this process's GPU
};

}  // namespace accelerate
