// SPDX-License-Identifier: Apache-2.0
// The entry point of libaccelerate_mpi.so.
#include <memory>

#include <torch/headeronly/version.h>

#include "accelerate/export.h"
#include "comm/backends/mpi/backend.h"
#include "comm/plugin.h"

namespace accelerate::mpi {
namespace {

c10d::Backend* create(const PluginGroupOptions& options) {
  return c10::make_intrusive<MpiBackend>(std::make_shared<Group>(options))
      .release();
}

constexpr BackendPlugin kPlugin = {kPluginAbi, TORCH_VERSION, "mpi", &create};

}  // namespace
}  // namespace accelerate::mpi

extern "C" ACCELERATE_API const accelerate::BackendPlugin*
accelerate_backend_plugin() {
  return &accelerate::mpi::kPlugin;
}
