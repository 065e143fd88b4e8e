// SPDX-License-Identifier: Apache-2.0
#include "xla/graph/trace.h"

#include <xxhash.h>

#include "accelerate/error.h"

namespace accelerate::xla {
namespace {

// Returns a new number for a traversal, unique in this process. A node's
// `visit` is the number of the last traversal that reached it.
std::uint64_t next_visit() {
  static std::uint64_t count = 0;
  return ++count;
}

void number(Trace& trace, Node& node) {
  const auto append = [&node](std::vector<Node*>& list) {
    node.index = static_cast<std::uint32_t>(list.size());
    list.push_back(&node);
  };
  if (node.op == Op::input) {
    append(trace.inputs);
  } else if (node.op == Op::scalar) {
    append(trace.scalars[scalar_pack(node.type)]);
  } else if (node.op == Op::result) {
    // Printed as a result of its operand.
    node.index = node.operands[0]->index;
  } else {
    append(trace.nodes);
  }
}

void visit(Trace& trace, Node& root, std::uint64_t current) {
  if (root.visit == current) {
    return;
  }
  root.visit = current;
  std::vector<std::pair<Node*, std::size_t>> stack{{&root, 0}};
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (next == node->operands.size()) {
      number(trace, *node);
      stack.pop_back();
      continue;
    }
    Node& operand = *node->operands[next++];
    if (operand.visit != current) {
      operand.visit = current;
      stack.emplace_back(&operand, 0);
    }
  }
}

bool fits(const Node& input, const Output& output) {
  return input.type == output.value->type &&
         input.shape == output.value->shape &&
         input.array->sharding == output.sharding;
}

void choose_donations(
    Trace& trace,
    const std::vector<Output>& outputs,
    const std::unordered_set<const Node*>& kept,
    std::uint64_t current) {
  trace.donated_to.assign(trace.inputs.size(), -1);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Node* previous = outputs[i].previous.get();
    if (previous == nullptr || previous->visit != current ||
        kept.contains(previous) || !fits(*previous, outputs[i])) {
      continue;
    }
    std::int64_t& taker = trace.donated_to[previous->index];
    if (taker < 0) {
      taker = static_cast<std::int64_t>(i);
    }
  }
}

// ---- fingerprint ----

using Words = std::vector<std::uint64_t>;

void append_shape(Words& words, const Shape& shape) {
  words.push_back(shape.size());
  words.insert(words.end(), shape.begin(), shape.end());
}

void append_sharding(Words& words, const Sharding& sharding) {
  words.push_back(
      sharding.dimension ? static_cast<std::uint64_t>(*sharding.dimension) + 1
                         : 0);
}

std::uint64_t reference_to(const Node& node) {
  const auto extra =
      node.op == Op::result ? static_cast<std::uint64_t>(node.numbers[0]) : 0;
  return static_cast<std::uint64_t>(node.index) << 32 | extra << 16 |
         static_cast<std::uint64_t>(node.type) << 8 |
         (node.op == Op::input    ? 1U
          : node.op == Op::scalar ? 2U
                                  : 0U);
}

void append_node(Words& words, const Node& node) {
  words.push_back(
      static_cast<std::uint64_t>(node.op) << 32 |
      static_cast<std::uint64_t>(node.type) << 16 | node.operands.size());
  append_shape(words, node.shape);
  words.push_back(node.numbers.size());
  words.insert(words.end(), node.numbers.begin(), node.numbers.end());
  for (const Value& operand : node.operands) {
    words.push_back(reference_to(*operand));
  }
  for (const ExtraResult& extra : node.extra_results) {
    words.push_back(static_cast<std::uint64_t>(extra.type));
    append_shape(words, extra.shape);
  }
}

}  // namespace

std::size_t scalar_pack(ElementType type) {
  switch (type) {
    case ElementType::f64:
      return 1;
    case ElementType::u64:
      return 2;
    default:
      return 0;  // f32 also carries f16 and bf16.
  }
}

Trace make_trace(
    const std::vector<Output>& outputs,
    const std::unordered_set<const Node*>& kept,
    std::int64_t num_devices) {
  Trace trace;
  trace.num_devices = num_devices;
  const std::uint64_t current = next_visit();
  for (const Output& output : outputs) {
    visit(trace, *output.value, current);
    trace.outputs.push_back(output.value.get());
    trace.output_shardings.push_back(output.sharding);
  }
  choose_donations(trace, outputs, kept, current);
  return trace;
}

Fingerprint fingerprint(const Trace& trace) {
  Words words;
  words.reserve(trace.nodes.size() * 16);
  words.push_back(static_cast<std::uint64_t>(trace.num_devices));
  words.push_back(trace.inputs.size());
  for (std::size_t i = 0; i < trace.inputs.size(); ++i) {
    const Node& node = *trace.inputs[i];
    words.push_back(static_cast<std::uint64_t>(node.type));
    append_shape(words, node.shape);
    append_sharding(words, node.array->sharding);
    words.push_back(static_cast<std::uint64_t>(trace.donated_to[i] + 1));
  }
  for (const auto& pack : trace.scalars) {
    words.push_back(pack.size());
    for (const Node* node : pack) {
      words.push_back(static_cast<std::uint64_t>(node->type));
    }
  }
  for (const Node* node : trace.nodes) {
    append_node(words, *node);
  }
  words.push_back(trace.outputs.size());
  for (std::size_t i = 0; i < trace.outputs.size(); ++i) {
    words.push_back(reference_to(*trace.outputs[i]));
    append_sharding(words, trace.output_shardings[i]);
  }
  const XXH128_hash_t hash =
      XXH3_128bits(words.data(), words.size() * sizeof(words[0]));
  return {hash.low64, hash.high64};
}

}  // namespace accelerate::xla
