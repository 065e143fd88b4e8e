// SPDX-License-Identifier: Apache-2.0
#include "accelerate/seed.h"

#include <ATen/Context.h>

#include "accelerate/error.h"
#include "accelerate/partial_state.h"
#include "device/device_library.h"

namespace accelerate {
namespace {

std::uint64_t index_of_this_process(const SetSeedOptions& options) {
  if (options.process_index) {
    return static_cast<std::uint64_t>(*options.process_index);
  }
  if (!PartialState::is_initialized()) {
    throw StateError(
        "`set_seed` with `device_specific` needs the index of this process, "
        "but there is no PartialState yet",
        "create the `Accelerator` first, or set `process_index`");
  }
  return static_cast<std::uint64_t>(PartialState().process_index());
}

}  // namespace

void set_seed(std::uint64_t seed, const SetSeedOptions& options) {
  if (options.device_specific) {
    seed += index_of_this_process(options);
  }
  at::manual_seed(seed);
  seed_other_devices(seed);
  if (options.deterministic) {
    at::globalContext().setDeterministicAlgorithms(
        /*b=*/true, /*warn_only=*/false);
  }
}

}  // namespace accelerate
