// SPDX-License-Identifier: Apache-2.0
#include "base/kernel_id.h"

#include "accelerate/error.h"
#include "base/files.h"
#include "base/text.h"

namespace accelerate {

std::string kernel_id() {
  constexpr std::size_t kMaxBytes = 256;
  try {
    return std::string(
        trim(read_file("/proc/sys/kernel/random/boot_id", kMaxBytes)));
  } catch (const Error&) {
    return {};
  }
}

}  // namespace accelerate
