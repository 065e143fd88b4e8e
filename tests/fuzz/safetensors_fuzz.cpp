// SPDX-License-Identifier: Apache-2.0
// Parses any bytes as a safetensors file, whose tensors must be inside the
// file, and as the index of a sharded model.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "accelerate/error.h"
#include "base/safetensors_header.h"
#include "base/safetensors_index.h"

namespace {

// Parses the bytes as an index: no file name may leave the folder.
void read_as_index(std::string_view text) {
  try {
    for (const auto& [file, tensors] :
         accelerate::parse_safetensors_index(text, "i.json")) {
      if (file.empty() || file == ".." || file.find('/') != file.npos ||
          tensors.empty()) {
        std::abort();
      }
    }
  } catch (const accelerate::FormatError&) {
    // The only allowed error for a bad file.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(
    const std::uint8_t* data, std::size_t size) {
  using namespace accelerate;
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  read_as_index(file);
  try {
    const auto length =
        safetensors_header_length(file.substr(0, 64), size, "f.safetensors");
    const SafetensorsHeader header =
        parse_safetensors_header(file.substr(8, length), size, "f.safetensors");
    std::uint64_t reached = 8 + length;
    for (const SafetensorsEntry& entry : header.tensors) {
      const auto bits = static_cast<std::uint64_t>(
          *safetensors_bits(entry.dtype) * entry.elements());
      if (entry.begin != reached || entry.end > size ||
          bits != 8 * (entry.end - entry.begin)) {
        std::abort();
      }
      reached = entry.end;
    }
    if (reached != size) {
      std::abort();
    }
  } catch (const FormatError&) {
    // The only allowed error for a bad file.
  }
  return 0;
}
