// SPDX-License-Identifier: Apache-2.0
// Processes many texts on several threads.
#pragma once

#include <cstddef>
#include <functional>

#include "tokenizers/engine.h"

namespace transformers::tokenizers {

/// Calls `work(index, workspace)` for every index below `count` on
/// `num_threads` threads. If `num_threads` is 0, uses up to one thread per
/// logical CPU core, and fewer if `bytes`, the total size of the texts, is
/// small. If any calls throw, rethrows the exception from the call with the
/// smallest index.
void for_each_text(
    const Engine& engine,
    std::size_t count,
    std::size_t bytes,
    int num_threads,
    const std::function<void(std::size_t, Workspace&)>& work);

}  // namespace transformers::tokenizers
