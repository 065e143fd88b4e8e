// SPDX-License-Identifier: Apache-2.0
// Options for compiling a program, and their encoding in the Protocol Buffers
// format that plugins read (`xla.CompileOptionsProto`).
#pragma once

#include <cstdint>
#include <string>

namespace accelerate::xla {

struct CompileOptions {
  /// The number of devices that run the program together. Each device has one
  /// part of each sharded value.
  std::int64_t num_partitions = 1;
};

/// Encodes the options. With several partitions, XLA partitions the program
/// according to its Shardy annotations.
std::string encode(const CompileOptions& options);

}  // namespace accelerate::xla
