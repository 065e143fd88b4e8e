// SPDX-License-Identifier: Apache-2.0
// The process groups of a checkpoint writer.
#pragma once

#include "accelerate/partial_state.h"
#include "checkpoint/writer.h"

namespace accelerate {

/// Creates process groups for a writer alone. `on_each_node`: the ranks of each
/// node write a checkpoint of their own. Collective.
WritingGroups make_writing_groups(const PartialState& state, bool on_each_node);

}  // namespace accelerate
