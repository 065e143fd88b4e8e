// SPDX-License-Identifier: Apache-2.0
// Many texts at once, over several threads.
#pragma once

#include <cstddef>
#include <functional>

#include "transformers/tokenizers/engine.h"

namespace transformers::tokenizers {

/// Calls `work(index, workspace)` for every index below `count`, from as many
/// threads as asked for (0 is one per processor), at most one per `bytes`
/// worth a thread. Rethrows the first exception, by index.
void for_each_text(
    const Engine& engine,
    std::size_t count,
    std::size_t bytes,
    int num_threads,
    const std::function<void(std::size_t, Workspace&)>& work);

}  // namespace transformers::tokenizers
