// SPDX-License-Identifier: Apache-2.0
// Moves batches to pinned memory, which a GPU can read directly.
#pragma once

#include "data/step.h"

namespace accelerate {

/// Throws `UnsupportedError` if there is no GPU. Without a GPU, memory cannot
/// be pinned.
void check_pinning();

/// Replaces the dense CPU tensors of a batch with copies in pinned memory. Does
/// nothing if the batch does not consist of tensors or nested containers of
/// tensors (see nest.h).
void pin(const detail::BatchSource& source, const Portion& portion);

}  // namespace accelerate
