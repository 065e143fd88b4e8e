// SPDX-License-Identifier: Apache-2.0
#include "comm/bounded_call.h"

#include <exception>
#include <system_error>
#include <thread>
#include <utility>

namespace accelerate {
namespace {

void run(std::function<void()>& body, std::promise<void>& done) {
  std::exception_ptr error;
  try {
    body();
  } catch (...) {
    error = std::current_exception();
  }
  // Destroys the objects that `body` owns before the caller continues.
  body = nullptr;
  if (error) {
    done.set_exception(error);
  } else {
    done.set_value();
  }
}

}  // namespace

bool BoundedCall::returned_within(
    std::chrono::milliseconds timeout, const std::function<void()>& body) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  if (running_.valid()) {
    if (running_.wait_until(deadline) != std::future_status::ready) {
      return false;
    }
    running_ = {};  // The earlier call has returned, but too late.
  }
  std::promise<void> done;
  std::future<void> result = done.get_future();
  std::thread thread;
  try {
    thread = std::thread([work = body, promise = std::move(done)]() mutable {
      run(work, promise);
    });
  } catch (const std::system_error&) {
    // There is no memory for a thread, so call `body` without a timeout.
    body();
    return true;
  }
  if (result.wait_until(deadline) != std::future_status::ready) {
    thread.detach();
    running_ = std::move(result);
    return false;
  }
  thread.join();
  result.get();
  return true;
}

}  // namespace accelerate
