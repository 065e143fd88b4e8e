// SPDX-License-Identifier: Apache-2.0
// Threads that work beside training.
#pragma once

namespace accelerate {

/// From now on the calling thread comes last where there are more threads than
/// cores, and at the disk. Both are wishes: a system may have no such order.
void yield_to_training();

}  // namespace accelerate
