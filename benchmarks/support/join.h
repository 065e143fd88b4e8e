// SPDX-License-Identifier: Apache-2.0
// Groups beside the one of PartialState, to compare backends.
#pragma once

#include <string>

#include "accelerate/group.h"

namespace accelerate::benchmarks {

/// A group of all processes of this run over one backend.
///
/// Collective; `name` must be new.
Group join(const std::string& name, Backend backend);

}  // namespace accelerate::benchmarks
