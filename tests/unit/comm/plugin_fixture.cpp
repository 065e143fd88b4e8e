// SPDX-License-Identifier: Apache-2.0
// A plugin library; its versions are set at build time.
#include "comm/plugin.h"

namespace {

accelerate::Transport* create(const accelerate::PluginGroupOptions&) {
  return nullptr;
}

constexpr accelerate::BackendPlugin kPlugin = {
    FIXTURE_ABI, FIXTURE_TORCH_VERSION, "fixture", &create};

}  // namespace

extern "C" ACCELERATE_API const accelerate::BackendPlugin* FIXTURE_ENTRY() {
  return &kPlugin;
}
