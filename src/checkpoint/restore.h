// SPDX-License-Identifier: Apache-2.0
// Restores a run from a checkpoint.
#pragma once

#include <filesystem>

#include "accelerate/checkpoint.h"
#include "checkpoint/contents.h"
#include "checkpoint/registered_state.h"
#include "checkpoint/run_state.h"

namespace accelerate {

/// Where a checkpoint was found, and how strictly it must fit.
struct RestoreOptions {
  std::filesystem::path path;
  bool strict = true;
};

/// Restores the state of a run from a verified checkpoint. Every rank checks
/// the checkpoint before any rank changes anything. Collective.
///
/// Throws a `FormatError` on every rank that lists everything that does not fit
/// the run on any rank.
LoadStateReport restore(
    const RunParts& run,
    const RegisteredState& registered,
    LoadedCheckpoint loaded,
    const RestoreOptions& options);

}  // namespace accelerate
