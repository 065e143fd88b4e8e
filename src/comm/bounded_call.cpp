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
  body = nullptr;  // What it owns is gone before the caller goes on.
  if (error) {
    done.set_exception(error);
  } else {
    done.set_value();
  }
}

}  // namespace

bool BoundedCall::returned_within(
    std::chrono::milliseconds limit, const std::function<void()>& body) {
  const auto until = std::chrono::steady_clock::now() + limit;
  if (open_.valid()) {
    if (open_.wait_until(until) != std::future_status::ready) {
      return false;
    }
    open_ = {};  // Its answer came too late to be of use.
  }
  std::promise<void> done;
  std::future<void> result = done.get_future();
  std::thread thread;
  try {
    thread = std::thread([work = body, promise = std::move(done)]() mutable {
      run(work, promise);
    });
  } catch (const std::system_error&) {
    body();  // No memory for a thread: better without a limit than not at all.
    return true;
  }
  if (result.wait_until(until) != std::future_status::ready) {
    thread.detach();
    open_ = std::move(result);
    return false;
  }
  thread.join();
  result.get();
  return true;
}

}  // namespace accelerate
