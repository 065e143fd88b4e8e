// SPDX-License-Identifier: Apache-2.0
// Restores a run from a checkpoint.
#pragma once

#include <filesystem>

#include "accelerate/checkpoint.h"
#include "checkpoint/contents.h"
#include "checkpoint/registered_state.h"
#include "checkpoint/run_state.h"

namespace accelerate {

/// The path of a checkpoint, and how strictly the checkpoint must fit the run.
struct RestoreOptions {
  std::filesystem::path path;
  bool strict = true;
};

/// Restores the state of a run from a verified checkpoint. Every rank checks
/// the checkpoint before any rank changes anything. Collective.
///
/// With `options.strict`, throws a `FormatError` on every rank if anything does
/// not fit the run on some rank. The error lists the problems of all ranks.
LoadStateReport restore(
    const RunParts& run,
    const RegisteredState& registered,
    LoadedCheckpoint loaded,
    const RestoreOptions& options);

}  // namespace accelerate
