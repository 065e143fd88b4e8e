// SPDX-License-Identifier: Apache-2.0
// The options of a compilation, in the protocol buffer format that plugins
// read (`xla.CompileOptionsProto`).
#pragma once

#include <cstdint>
#include <string>

namespace accelerate::xla {

struct CompileOptions {
  /// The devices that run one program together, each with its partition of the
  /// sharded values.
  std::int64_t num_partitions = 1;
};

/// Encodes the options. With several partitions, XLA partitions the program by
/// its Shardy annotations.
std::string encode(const CompileOptions& options);

}  // namespace accelerate::xla
