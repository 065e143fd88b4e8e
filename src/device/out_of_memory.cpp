// SPDX-License-Identifier: Apache-2.0
#include "device/out_of_memory.h"

#include <string_view>

#include "base/str_cat.h"
#include "base/text.h"
#include "device/device_library.h"

namespace accelerate {
namespace {

// Parses LibTorch's text `… Tried to allocate 20.00 GiB. GPU 0 has …`.
std::string requested(std::string_view text) {
  constexpr std::string_view kBefore = "Tried to allocate ";
  const auto begin = text.find(kBefore);
  if (begin == std::string_view::npos) {
    return "memory";
  }
  const std::string_view rest = text.substr(begin + kBefore.size());
  return std::string(rest.substr(0, rest.find(". ")));
}

std::string bytes(std::int64_t count) {
  return format_bytes(static_cast<double>(count));
}

}  // namespace

bool is_out_of_memory_error(const c10::Error& error) {
  // LibTorch has no special exception class for CPU memory.
  return dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
         error.msg().find("DefaultCPUAllocator: ") != std::string::npos;
}

OutOfMemoryError out_of_memory(const c10::Error& error, c10::Device device) {
  std::string text = error.what_without_backtrace();
  if (const DeviceBackend* backend = device_backend_of(device)) {
    const DeviceMemory memory = backend->memory(device.index());
    text = str_cat(
        "GPU ",
        static_cast<int>(device.index()),
        ", ",
        backend->describe(device.index()),
        ", is out of memory: ",
        requested(text),
        " requested, ",
        bytes(memory.free),
        " of ",
        bytes(memory.total),
        " free, peak use by tensors ",
        bytes(memory.peak));
  }
  return OutOfMemoryError(
      text,
      "use a smaller batch (`find_executable_batch_size` finds a size that "
      "fits), gradient "
      "accumulation or mixed precision");
}

}  // namespace accelerate
