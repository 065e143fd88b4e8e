// SPDX-License-Identifier: Apache-2.0
#include "data/pool_options.h"

#include "accelerate/error.h"
#include "base/message.h"
#include "base/str_cat.h"
#include "comm/wait_limits.h"

namespace accelerate {
namespace {

std::string describe_read(const PoolOptions& options, std::int64_t thread) {
  return thread == kNoThread || !options.describe_read
             ? "the next batch"
             : options.describe_read(thread);
}

}  // namespace

void warn_waiting(const PoolOptions& options, std::int64_t thread) {
  print_warning(str_cat(
      "the loop over the data loader has waited ",
      name_duration(options.warn_after),
      " for ",
      describe_read(options, thread),
      "; the timeout is ",
      name_duration(options.timeout)));
}

void warn_stopping(const PoolOptions& options, std::int64_t thread) {
  print_warning(str_cat(
      "a loop over the data loader ended early and has waited ",
      name_duration(options.warn_after),
      " for a worker that is busy with ",
      describe_read(options, thread)));
}

void throw_timeout(const PoolOptions& options, std::int64_t thread) {
  throw IoError(
      str_cat(
          thread == kNoThread
              ? std::string("no worker started reading the next batch")
              : str_cat(describe_read(options, thread), " was not ready"),
          " within ",
          name_duration(options.timeout)),
      "find out what the dataset is waiting for, or raise the loader's "
      "`timeout`");
}

}  // namespace accelerate
