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
  /// A device value that nothing needs after the program, whose memory the
  /// output may take (donation); may be null.
  Value previous;
  Sharding sharding;
};

/// The types whose scalars a program takes, each packed into one argument.
inline constexpr std::array kScalarTypes{
    ElementType::f32, ElementType::f64, ElementType::u64};

struct Trace {
  std::vector<Node*> inputs;
  /// Scalars by the pack that carries them (kScalarTypes).
  std::array<std::vector<Node*>, kScalarTypes.size()> scalars;
  std::vector<Node*> nodes;  ///< The rest; operands come first.
  std::vector<Node*> outputs;
  std::vector<Sharding> output_shardings;
  /// For each input, the output that takes its memory, or -1.
  std::vector<std::int64_t> donated_to;
  std::int64_t num_devices = 1;
};

/// Collects the program for `outputs`, which are different nodes. `kept` are
/// inputs that are needed afterwards. Sets `index` of every node.
Trace make_trace(
    const std::vector<Output>& outputs,
    const std::unordered_set<const Node*>& kept,
    std::int64_t num_devices);

/// The pack of kScalarTypes for a scalar of `type`.
std::size_t scalar_pack(ElementType type);

/// A 128-bit fingerprint of the program: equal for programs with equal text.
struct Fingerprint {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  bool operator==(const Fingerprint&) const = default;
};
Fingerprint fingerprint(const Trace& trace);

/// The program as StableHLO text in generic form.
std::string emit(const Trace& trace);

}  // namespace accelerate::xla
