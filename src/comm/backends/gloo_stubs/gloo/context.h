// SPDX-License-Identifier: Apache-2.0
// Replaces a Gloo header that LibTorch packages do not ship; see
// gloo_backend.cpp.
#pragma once

#include <chrono>
#include <memory>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo
