// SPDX-License-Identifier: Apache-2.0
// Stands in for a Gloo header that no LibTorch package ships; see
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
