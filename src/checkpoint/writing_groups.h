// SPDX-License-Identifier: Apache-2.0
// The process groups of a checkpoint writer.
#pragma once

#include "accelerate/partial_state.h"
#include "checkpoint/writer.h"

namespace accelerate {

/// Creates process groups that only one checkpoint writer uses. If
/// `on_each_node` is true, the ranks of each node write a separate checkpoint.
/// Collective.
WritingGroups make_writing_groups(const PartialState& state, bool on_each_node);

}  // namespace accelerate
