// SPDX-License-Identifier: Apache-2.0
// One program to run: everything that its outputs depend on, in order.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "xla/graph/node.h"

namespace accelerate::xla {

/// A value that a program computes.
struct Output {
  Value value;
  /// A value in device memory that is not needed after the program, so that the
  /// output may take over its memory (donation). May be null.
  Value previous;
  Sharding sharding;
};

/// The types in which a program takes scalars. All scalars of one type are
/// packed into one argument.
inline constexpr std::array kScalarTypes{
    ElementType::f32, ElementType::f64, ElementType::u64};

struct Trace {
  std::vector<Node*> inputs;
  /// The scalars in each pack; see `kScalarTypes`.
  std::array<std::vector<Node*>, kScalarTypes.size()> scalars;
  std::vector<Node*> nodes;  ///< All other nodes, each after its operands.
  std::vector<Node*> outputs;
  std::vector<Sharding> output_shardings;
  /// For each input, the index of the output that reuses its buffer, or -1 if
  /// the buffer is not donated.
  std::vector<std::int64_t> donated_to;
  std::int64_t num_devices = 1;
};

/// Returns the program that computes `outputs`, which must be different nodes.
/// The inputs in `kept` are not donated, because they are needed afterwards.
/// Sets the `index` of every node in the program.
Trace make_trace(
    const std::vector<Output>& outputs,
    const std::unordered_set<const Node*>& kept,
    std::int64_t num_devices);

/// Returns the index of the pack for scalars of `type`; see `kScalarTypes`. f16
/// and bf16 are passed as f32.
std::size_t scalar_pack(ElementType type);

/// A 128-bit fingerprint of a program. Programs with the same text have the
/// same fingerprint.
struct Fingerprint {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  bool operator==(const Fingerprint&) const = default;
};
Fingerprint fingerprint(const Trace& trace);

/// Returns the program as StableHLO text in generic form.
std::string emit(const Trace& trace);

}  // namespace accelerate::xla
