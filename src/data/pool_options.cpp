// SPDX-License-Identifier: Apache-2.0
#include "data/pool_options.h"

#include <iostream>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "comm/patience.h"

namespace accelerate {
namespace {

std::string what_is_read(const PoolOptions& options, std::int64_t thread) {
  return thread == kNobody || !options.reads ? "a batch that no worker began"
                                             : options.reads(thread);
}

void warn(const std::string& text) {
  std::cerr << "warning: " + text + "\n" << std::flush;
}

}  // namespace

void warn_of_wait(const PoolOptions& options, std::int64_t thread) {
  warn(str_cat(
      "the loop has waited ",
      name_duration(options.warn_after),
      " for ",
      what_is_read(options, thread),
      "; it gives up after ",
      name_duration(options.timeout)));
}

void warn_of_end(const PoolOptions& options, std::int64_t thread) {
  warn(str_cat(
      "a loop that was left has waited ",
      name_duration(options.warn_after),
      " for a worker that reads ",
      what_is_read(options, thread)));
}

void throw_late(const PoolOptions& options, std::int64_t thread) {
  throw IoError(
      str_cat(
          what_is_read(options, thread),
          " did not come within ",
          name_duration(options.timeout)),
      "see what the dataset waits for, or raise the loader's `timeout`");
}

}  // namespace accelerate
