// SPDX-License-Identifier: Apache-2.0
// The only file that sees ProcessGroupGloo.hpp. That header includes five
// headers of Gloo, which neither the wheel nor the libtorch archive has;
// gloo_stubs/ has stand-ins with just the names it uses. This is sound as long
// as this file touches nothing but the three functions below: every member of
// a Gloo type is behind a pointer, so layouts agree. A test looks at this
// file's object and fails if it ever carries a Gloo virtual table.
#include "comm/backends/gloo_backend.h"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

namespace accelerate {

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(
    const c10::intrusive_ptr<c10d::Store>& store,
    int rank,
    int size,
    const std::string& address,
    std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->threads = 2;
  options->devices.push_back(
      c10d::ProcessGroupGloo::createDeviceForHostname(address));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(
      store, rank, size, options);
}

}  // namespace accelerate
