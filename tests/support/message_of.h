// SPDX-License-Identifier: Apache-2.0
// The text of an expected error.
#pragma once

#include <functional>
#include <string>

#include <gtest/gtest.h>

namespace accelerate {

/// Returns what `body` throws; fails the test unless it is an `E`.
template <typename E>
std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another type was thrown: " << error.what();
    return {};
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

}  // namespace accelerate
