// SPDX-License-Identifier: Apache-2.0
// The only file that includes ProcessGroupGloo.hpp. That header includes five
// Gloo headers, which neither the wheel nor the libtorch archive contains;
// gloo_stubs/ declares just the names that ProcessGroupGloo.hpp uses. These
// stubs are safe as long as this file uses only the functions below:
// ProcessGroupGloo has only pointers to Gloo types, so its layout does not
// change. A test fails if the object file of this source contains a Gloo
// virtual table.
#include "comm/backends/gloo_backend.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace accelerate {

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(
    const c10::intrusive_ptr<c10d::Store>& store,
    int rank,
    int size,
    const GlooNetwork& network,
    std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->threads = 2;
  using Gloo = c10d::ProcessGroupGloo;
  if (network.loopback) {
    options->devices.push_back(Gloo::createDeviceForHostname("127.0.0.1"));
  } else if (!network.interface.empty()) {
    options->devices.push_back(
        Gloo::createDeviceForInterface(network.interface));
  } else {
    options->devices.push_back(Gloo::createDefaultDevice());
  }
  return c10::make_intrusive<c10d::ProcessGroupGloo>(
      store, rank, size, options);
}

}  // namespace accelerate
