// SPDX-License-Identifier: Apache-2.0
// Batches in memory that a GPU can read by itself.
#pragma once

#include "data/step.h"

namespace accelerate {

/// Throws `UnsupportedError` where there is no GPU to pin memory for.
void check_pinning();

/// Pins the tensors of a batch that lie in the host's memory, by the thread
/// that made it.
void pin(const detail::BatchSource& source, const Portion& portion);

}  // namespace accelerate
