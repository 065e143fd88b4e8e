// SPDX-License-Identifier: Apache-2.0
// The only file that sees ProcessGroupGloo.hpp. That header includes five
// headers of Gloo, which neither the wheel nor the libtorch archive has;
// gloo_stubs/ has stand-ins with just the names it uses. This is sound as long
// as this file touches nothing but the functions below: every member of
// a Gloo type is behind a pointer, so layouts agree. A test looks at this
// file's object and fails if it ever carries a Gloo virtual table.
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
