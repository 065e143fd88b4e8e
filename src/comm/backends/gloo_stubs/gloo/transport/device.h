// SPDX-License-Identifier: Apache-2.0
// Replaces a Gloo header that LibTorch packages do not ship; see
// gloo_backend.cpp.
#pragma once

#include <memory>

namespace gloo::transport {

class Device;
class UnboundBuffer;

}  // namespace gloo::transport
