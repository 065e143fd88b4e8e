// SPDX-License-Identifier: Apache-2.0
// The text of an expected error.
#pragma once

#include <functional>
#include <string>

#include <gtest/gtest.h>

namespace accelerate {

/// Returns the text of the exception that `body` throws. Fails the test if
/// `body` throws no exception or an exception of a type other than `E`.
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
