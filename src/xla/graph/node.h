// SPDX-License-Identifier: Apache-2.0
// A recorded program: a graph of nodes that refer to their operands. Does not
// use LibTorch.
//
// NOTE [Recorded values]
// A `Value` is immutable: writing to a tensor makes a new one. A number that
// changes from step to step, such as a learning rate or a seed, is a `scalar`.
// The number is an argument of the compiled program, so a new number does not
// require another compilation.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "xla/element_type.h"
#include "xla/pjrt/client.h"

namespace accelerate::xla {

// (enumerator, name in StableHLO or CHLO)
#define ACCELERATE_XLA_OPS(_)                                 \
  _(input, "")                                                \
  _(scalar, "")                                               \
  _(result, "")                                               \
  _(constant, "stablehlo.constant")                           \
  _(iota, "stablehlo.iota")                                   \
  _(convert, "stablehlo.convert")                             \
  _(bitcast, "stablehlo.bitcast_convert")                     \
  _(reshape, "stablehlo.reshape")                             \
  _(transpose, "stablehlo.transpose")                         \
  _(broadcast, "stablehlo.broadcast_in_dim")                  \
  _(slice, "stablehlo.slice")                                 \
  _(update_slice, "stablehlo.dynamic_update_slice")           \
  _(pad, "stablehlo.pad")                                     \
  _(concatenate, "stablehlo.concatenate")                     \
  _(reverse, "stablehlo.reverse")                             \
  _(compare, "stablehlo.compare")                             \
  _(select, "stablehlo.select")                               \
  _(dot, "stablehlo.dot_general")                             \
  _(convolution, "stablehlo.convolution")                     \
  _(reduce, "stablehlo.reduce")                               \
  _(reduce_window, "stablehlo.reduce_window")                 \
  _(gather, "stablehlo.gather")                               \
  _(scatter, "stablehlo.scatter")                             \
  _(sort, "stablehlo.sort")                                   \
  _(random_bits, "stablehlo.rng_bit_generator")               \
  _(abs, "stablehlo.abs")                                     \
  _(ceil, "stablehlo.ceil")                                   \
  _(cosine, "stablehlo.cosine")                               \
  _(exponential, "stablehlo.exponential")                     \
  _(exponential_minus_one, "stablehlo.exponential_minus_one") \
  _(floor, "stablehlo.floor")                                 \
  _(is_finite, "stablehlo.is_finite")                         \
  _(log, "stablehlo.log")                                     \
  _(log_plus_one, "stablehlo.log_plus_one")                   \
  _(logistic, "stablehlo.logistic")                           \
  _(negate, "stablehlo.negate")                               \
  _(logical_not, "stablehlo.not")                             \
  _(round, "stablehlo.round_nearest_even")                    \
  _(rsqrt, "stablehlo.rsqrt")                                 \
  _(sign, "stablehlo.sign")                                   \
  _(sine, "stablehlo.sine")                                   \
  _(sqrt, "stablehlo.sqrt")                                   \
  _(tan, "stablehlo.tan")                                     \
  _(tanh, "stablehlo.tanh")                                   \
  _(erf, "chlo.erf")                                          \
  _(erf_inv, "chlo.erf_inv")                                  \
  _(lgamma, "chlo.lgamma")                                    \
  _(digamma, "chlo.digamma")                                  \
  _(add, "stablehlo.add")                                     \
  _(subtract, "stablehlo.subtract")                           \
  _(multiply, "stablehlo.multiply")                           \
  _(divide, "stablehlo.divide")                               \
  _(maximum, "stablehlo.maximum")                             \
  _(minimum, "stablehlo.minimum")                             \
  _(power, "stablehlo.power")                                 \
  _(remainder, "stablehlo.remainder")                         \
  _(atan2, "stablehlo.atan2")                                 \
  _(logical_and, "stablehlo.and")                             \
  _(logical_or, "stablehlo.or")                               \
  _(logical_xor, "stablehlo.xor")                             \
  _(shift_left, "stablehlo.shift_left")                       \
  _(shift_right, "stablehlo.shift_right_logical")

enum class Op : std::uint8_t {
#define ACCELERATE_XLA_ENUMERATOR(name, text) name,
  ACCELERATE_XLA_OPS(ACCELERATE_XLA_ENUMERATOR)
#undef ACCELERATE_XLA_ENUMERATOR
};

/// How a value is divided among the devices of a mesh: along one dimension, or
/// not at all (every device has the whole value).
struct Sharding {
  std::optional<std::int64_t> dimension;

  bool operator==(const Sharding&) const = default;
};

/// The buffers of one value, one per device of the mesh.
struct DeviceArray {
  std::vector<Buffer> buffers;
  Sharding sharding;
};

struct Node;
using Value = std::shared_ptr<Node>;

/// The type and shape of a result that is not the first result of its
/// operation.
struct ExtraResult {
  ElementType type;
  Shape shape;
};

/// An operation and its first result. The functions in build.h create nodes;
/// afterwards, only `visit` and `index` change, and a run replaces operands
/// with the values that it has computed for them.
struct Node {
  Op op = Op::constant;
  ElementType type = ElementType::f32;
  Shape shape;  ///< The shape of the whole value, not of a part.
  std::vector<Value> operands;
  /// Attributes, in the order that build.cpp uses.
  std::vector<std::int64_t> numbers;
  std::vector<ExtraResult> extra_results;
  std::shared_ptr<const DeviceArray> array;  ///< The buffers of an `input`.
  std::uint64_t bits = 0;  ///< The number of a `scalar`: a u64 or a double.

  /// The position of the node in the order of creation.
  std::uint64_t sequence = 0;

  // Used by traversals of the graph, which hold `Tracer::lock`.
  std::uint64_t visit = 0;
  std::uint32_t index = 0;

  Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  /// Releases long chains of operands without recursion.
  ~Node();
};

}  // namespace accelerate::xla
