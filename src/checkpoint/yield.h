// SPDX-License-Identifier: Apache-2.0
// Lowers the priority of background threads.
#pragma once

namespace accelerate {

/// Gives the calling thread the lowest CPU and disk priority, if the system
/// permits this.
void yield_to_training();

}  // namespace accelerate
