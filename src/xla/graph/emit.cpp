// SPDX-License-Identifier: Apache-2.0
// Programs as StableHLO text in MLIR's generic form.
#include <bit>
#include <cmath>
#include <cstdio>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "xla/graph/build.h"
#include "xla/graph/trace.h"

namespace accelerate::xla {
namespace {

std::string_view text_name(Op op) {
  static constexpr std::string_view kNames[] = {
#define ACCELERATE_XLA_TEXT(name, text) text,
      ACCELERATE_XLA_OPS(ACCELERATE_XLA_TEXT)
#undef ACCELERATE_XLA_TEXT
  };
  return kNames[static_cast<std::size_t>(op)];
}

std::string tensor_type(ElementType type, const Shape& shape) {
  std::string text = "tensor<";
  for (const std::int64_t size : shape) {
    text += std::to_string(size);
    text += 'x';
  }
  text += name_of(type);
  text += '>';
  return text;
}

std::string tensor_type(const Node& node) {
  return tensor_type(node.type, node.shape);
}

// ---- attributes ----

std::string joined(const Dims& list) {
  std::string text;
  for (const std::int64_t number : list) {
    text += text.empty() ? "" : ", ";
    text += std::to_string(number);
  }
  return text;
}

std::string array_of(const Dims& list) {
  return list.empty() ? "array<i64>" : "array<i64: " + joined(list) + ">";
}

std::string list_of(const Dims& list) {
  return "[" + joined(list) + "]";
}

std::string pairs_of(const Dims& low, const Dims& high) {
  std::string text;
  for (std::size_t i = 0; i < low.size(); ++i) {
    text += str_cat(i > 0 ? ", [" : "[", low[i], ", ", high[i], "]");
  }
  if (low.empty()) {
    return "dense<> : tensor<0x2xi64>";
  }
  return str_cat("dense<[", text, "]> : tensor<", low.size(), "x2xi64>");
}

// Reads a node's numbers in the order in which build.cpp wrote them.
class Numbers {
 public:
  explicit Numbers(const Node& node) : numbers_(node.numbers) {}
  std::int64_t next() { return numbers_[position_++]; }
  Dims list() {
    const auto count = static_cast<std::size_t>(next());
    const auto begin =
        numbers_.begin() + static_cast<std::ptrdiff_t>(position_);
    position_ += count;
    return {begin, begin + static_cast<std::ptrdiff_t>(count)};
  }
  Dims rest() {
    return {
        numbers_.begin() + static_cast<std::ptrdiff_t>(position_),
        numbers_.end()};
  }

 private:
  const std::vector<std::int64_t>& numbers_;
  std::size_t position_ = 0;
};

struct SpecialBits {
  std::string_view nan, infinity, negative_infinity;
};

SpecialBits special_bits(ElementType type) {
  switch (type) {
    case ElementType::f64:
      return {"0x7FF8000000000000", "0x7FF0000000000000", "0xFFF0000000000000"};
    case ElementType::f16:
      return {"0x7E00", "0x7C00", "0xFC00"};
    case ElementType::bf16:
      return {"0x7FC0", "0x7F80", "0xFF80"};
    default:
      return {"0x7FC00000", "0x7F800000", "0xFF800000"};
  }
}

// Whether the number becomes infinite when it is rounded to the type.
bool overflows(double number, ElementType type) {
  switch (type) {
    case ElementType::f32:
      return std::isinf(static_cast<float>(number));
    case ElementType::f16:
      return std::abs(number) >= 65520.0;
    case ElementType::bf16:
      return std::abs(number) >= 0x1.FFp127;
    default:
      return std::isinf(number);
  }
}

std::string literal(std::int64_t bits, ElementType type) {
  if (type == ElementType::pred) {
    return bits != 0 ? "true" : "false";
  }
  if (type == ElementType::u8 || type == ElementType::u32 ||
      type == ElementType::u64) {
    return std::to_string(static_cast<std::uint64_t>(bits));
  }
  if (!is_floating(type)) {
    return std::to_string(bits);
  }
  const auto number = std::bit_cast<double>(bits);
  if (std::isnan(number)) {
    return std::string(special_bits(type).nan);
  }
  if (overflows(number, type)) {
    const SpecialBits special = special_bits(type);
    return std::string(
        number > 0 ? special.infinity : special.negative_infinity);
  }
  char text[40];
  std::snprintf(text, sizeof(text), "%.17e", number);
  return text;
}

std::string direction_of(std::int64_t direction) {
  static constexpr const char* kNames[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
  return kNames[direction];
}

std::string_view comparison_type(ElementType type) {
  switch (type) {
    case ElementType::pred:
    case ElementType::u8:
    case ElementType::u32:
    case ElementType::u64:
      return "UNSIGNED";
    default:
      return is_floating(type) ? "FLOAT" : "SIGNED";
  }
}

// The type is not optional: without it, XLA's constant folding compares signed
// integers as unsigned ones.
std::string comparison(std::string_view direction, ElementType type) {
  return str_cat(
      "comparison_direction = #stablehlo<comparison_direction ",
      direction,
      ">, compare_type = #stablehlo<comparison_type ",
      comparison_type(type),
      ">");
}

std::string strided_attributes(Numbers numbers) {
  const Dims from = numbers.list();
  const Dims to = numbers.list();
  return str_cat(
      "start_indices = ",
      array_of(from),
      ", limit_indices = ",
      array_of(to),
      ", strides = ",
      array_of(numbers.list()));
}

std::string pad_attributes(Numbers numbers) {
  const Dims low = numbers.list();
  const Dims high = numbers.list();
  return str_cat(
      "edge_padding_low = ",
      array_of(low),
      ", edge_padding_high = ",
      array_of(high),
      ", interior_padding = ",
      array_of(numbers.list()));
}

// HIGHEST: a TPU would otherwise multiply f32 in bf16.
constexpr std::string_view kPrecision =
    "precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision "
    "HIGHEST>]";

std::string dot_attributes(Numbers numbers) {
  const Dims batch_a = numbers.list();
  const Dims batch_b = numbers.list();
  const Dims contract_a = numbers.list();
  return str_cat(
      "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = ",
      list_of(batch_a),
      ", rhs_batching_dimensions = ",
      list_of(batch_b),
      ", lhs_contracting_dimensions = ",
      list_of(contract_a),
      ", rhs_contracting_dimensions = ",
      list_of(numbers.list()),
      ">, ",
      kPrecision);
}

// "[b, f, 0, 1]" from the letters "bf".
std::string dimension_order(std::string_view letters, std::size_t spatial) {
  std::string text = str_cat("[", letters[0], ", ", letters[1]);
  for (std::size_t i = 0; i < spatial; ++i) {
    text += str_cat(", ", i);
  }
  return text + "]";
}

std::string convolution_dimensions(
    ConvolutionLayout layout, std::size_t spatial) {
  const bool weight = layout == ConvolutionLayout::weight_gradient;
  const std::string_view ab = weight ? "fb" : "bf";
  const std::string_view kernel =
      layout == ConvolutionLayout::forward ? "oi" : "io";
  return str_cat(
      dimension_order(ab, spatial),
      "x",
      dimension_order(kernel, spatial),
      "->",
      dimension_order(ab, spatial));
}

std::string reversal(bool reversed, std::size_t spatial) {
  std::string text = "array<i1";
  for (std::size_t i = 0; i < spatial; ++i) {
    text += str_cat(i == 0 ? ": " : ", ", reversed ? "true" : "false");
  }
  return text + ">";
}

std::string convolution_attributes(Numbers numbers) {
  const auto layout = static_cast<ConvolutionLayout>(numbers.next());
  const bool reversed = numbers.next() != 0;
  const std::int64_t feature_groups = numbers.next();
  const std::int64_t batch_groups = numbers.next();
  const Dims strides = numbers.list();
  const Dims low = numbers.list();
  const Dims high = numbers.list();
  const Dims a_dilation = numbers.list();
  const Dims b_dilation = numbers.list();
  return str_cat(
      "window_strides = ",
      array_of(strides),
      ", padding = ",
      pairs_of(low, high),
      ", lhs_dilation = ",
      array_of(a_dilation),
      ", rhs_dilation = ",
      array_of(b_dilation),
      ", window_reversal = ",
      reversal(reversed, strides.size()),
      ", dimension_numbers = #stablehlo.conv<",
      convolution_dimensions(layout, strides.size()),
      ">, feature_group_count = ",
      feature_groups,
      " : i64, batch_group_count = ",
      batch_groups,
      " : i64, ",
      kPrecision);
}

std::string window_attributes(Numbers numbers) {
  numbers.next();  // The operation of the region.
  const Dims size = numbers.list();
  const Dims strides = numbers.list();
  const Dims base = numbers.list();
  const Dims dilation = numbers.list();
  const Dims low = numbers.list();
  return str_cat(
      "window_dimensions = ",
      array_of(size),
      ", window_strides = ",
      array_of(strides),
      ", base_dilations = ",
      array_of(base),
      ", window_dilations = ",
      array_of(dilation),
      ", padding = ",
      pairs_of(low, numbers.list()));
}

std::string gather_attributes(Numbers numbers) {
  const Dims offsets = numbers.list();
  const Dims collapsed = numbers.list();
  const Dims start_map = numbers.list();
  return str_cat(
      "dimension_numbers = #stablehlo.gather<offset_dims = ",
      list_of(offsets),
      ", collapsed_slice_dims = ",
      list_of(collapsed),
      ", start_index_map = ",
      list_of(start_map),
      ", index_vector_dim = 1>, slice_sizes = ",
      array_of(numbers.list()),
      ", indices_are_sorted = false");
}

std::string scatter_attributes(Numbers numbers) {
  numbers.next();  // How updates are combined.
  const Dims windows = numbers.list();
  const Dims inserted = numbers.list();
  return str_cat(
      "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = ",
      list_of(windows),
      ", inserted_window_dims = ",
      list_of(inserted),
      ", scatter_dims_to_operand_dims = ",
      list_of(numbers.list()),
      ", index_vector_dim = 1>, indices_are_sorted = false, unique_indices = "
      "false");
}

std::string attributes(const Node& node) {
  Numbers numbers(node);
  switch (node.op) {
    case Op::constant:
      return str_cat(
          "value = dense<",
          literal(node.numbers[0], node.type),
          "> : ",
          tensor_type(node));
    case Op::iota:
      return str_cat("iota_dimension = ", node.numbers[0], " : i64");
    case Op::transpose:
      return "permutation = " + array_of(node.numbers);
    case Op::broadcast:
      return "broadcast_dimensions = " + array_of(node.numbers);
    case Op::slice:
      return strided_attributes(numbers);
    case Op::pad:
      return pad_attributes(numbers);
    case Op::concatenate:
      return str_cat("dimension = ", node.numbers[0], " : i64");
    case Op::reverse:
      return "dimensions = " + array_of(node.numbers);
    case Op::compare:
      return comparison(direction_of(node.numbers[0]), node.operands[0]->type);
    case Op::dot:
      return dot_attributes(numbers);
    case Op::convolution:
      return convolution_attributes(numbers);
    case Op::reduce:
      numbers.next();
      return "dimensions = " + array_of(numbers.rest());
    case Op::reduce_window:
      return window_attributes(numbers);
    case Op::gather:
      return gather_attributes(numbers);
    case Op::scatter:
      return scatter_attributes(numbers);
    case Op::sort:
      return str_cat(
          "dimension = ", node.numbers[0], " : i64, is_stable = true");
    case Op::random_bits:
      return "rng_algorithm = #stablehlo<rng_algorithm THREE_FRY>";
    default:
      return "";
  }
}

// ---- regions ----

// A function of two scalars that applies `op` to them, or returns the second if
// `op` is empty.
std::string combining_region(std::string_view op, ElementType type) {
  const std::string scalar_type = tensor_type(type, {});
  std::string text =
      str_cat("({ ^bb0(%a: ", scalar_type, ", %b: ", scalar_type, "): ");
  if (!op.empty()) {
    text += str_cat(
        "%r = \"",
        op,
        "\"(%a, %b) : (",
        scalar_type,
        ", ",
        scalar_type,
        ") -> ",
        scalar_type,
        " ");
  }
  return str_cat(
      text,
      "\"stablehlo.return\"(",
      op.empty() ? "%b" : "%r",
      ") : (",
      scalar_type,
      ") -> () })");
}

std::string scatter_region(const Node& node) {
  static constexpr Op kOps[] = {
      Op::input, Op::add, Op::maximum, Op::minimum, Op::multiply};
  const Op op = kOps[node.numbers[0]];
  return combining_region(
      op == Op::input ? std::string_view() : text_name(op), node.type);
}

std::string sort_region(const Node& node) {
  const std::string key = tensor_type(node.type, {});
  const std::string value = tensor_type(node.extra_results[0].type, {});
  return str_cat(
      "({ ^bb0(%a: ",
      key,
      ", %b: ",
      key,
      ", %c: ",
      value,
      ", %d: ",
      value,
      "): %r = \"stablehlo.compare\"(%a, %b) <{",
      comparison(node.numbers[1] != 0 ? "GT" : "LT", node.type),
      "}> : (",
      key,
      ", ",
      key,
      ") -> tensor<i1> \"stablehlo.return\"(%r) : (tensor<i1>) -> () })");
}

std::string region(const Node& node) {
  switch (node.op) {
    case Op::reduce:
    case Op::reduce_window:
      return combining_region(
          text_name(static_cast<Op>(node.numbers[0])), node.type);
    case Op::scatter:
      return scatter_region(node);
    case Op::sort:
      return sort_region(node);
    default:
      return "";
  }
}

// ---- names ----

std::string value_name(const Node& node) {
  if (node.op == Op::input) {
    return str_cat("%arg", node.index);
  }
  if (node.op == Op::scalar) {
    return str_cat("%s", scalar_pack(node.type), "_", node.index);
  }
  if (node.op == Op::result) {
    return str_cat("%", node.index, "#", node.numbers[0]);
  }
  return node.extra_results.empty() ? str_cat("%", node.index)
                                    : str_cat("%", node.index, "#0");
}

std::string result_name(const Node& node) {
  return node.extra_results.empty()
             ? str_cat("%", node.index)
             : str_cat("%", node.index, ":", node.extra_results.size() + 1);
}

std::string result_types(const Node& node) {
  if (node.extra_results.empty()) {
    return tensor_type(node);
  }
  std::string text = "(" + tensor_type(node);
  for (const ExtraResult& extra : node.extra_results) {
    text += ", " + tensor_type(extra.type, extra.shape);
  }
  return text + ")";
}

// ---- statements ----

std::string sharding_attribute(const Sharding& sharding, std::size_t rank) {
  std::string dims;
  for (std::size_t i = 0; i < rank; ++i) {
    const bool divided = sharding.dimension == static_cast<std::int64_t>(i);
    dims += str_cat(i > 0 ? ", " : "", divided ? "{\"devices\"}" : "{}");
  }
  return str_cat("sdy.sharding = #sdy.sharding<@mesh, [", dims, "]>");
}

std::string braces(const std::string& attributes) {
  return attributes.empty() ? "" : " {" + attributes + "}";
}

std::string statement(const Node& node) {
  std::string operands;
  std::string types;
  for (const Value& operand : node.operands) {
    const char* separator = operands.empty() ? "" : ", ";
    operands += separator + value_name(*operand);
    types += separator + tensor_type(*operand);
  }
  const std::string properties = attributes(node);
  const std::string body = region(node);
  return str_cat(
      result_name(node),
      " = \"",
      text_name(node.op),
      "\"(",
      operands,
      ")",
      properties.empty() ? "" : " <{" + properties + "}>",
      body.empty() ? "" : " " + body,
      " : (",
      types,
      ") -> ",
      result_types(node),
      "\n");
}

// Takes a scalar out of its pack.
std::string unpacked(const Node& node, std::size_t pack, std::size_t count) {
  const ElementType carrier = kScalarTypes[pack];
  const std::string name = value_name(node);
  const std::string carried = tensor_type(carrier, {});
  const bool converts = node.type != carrier;
  std::string text = str_cat(
      name,
      "_1 = \"stablehlo.slice\"(%pack",
      pack,
      ") <{start_indices = ",
      array_of({node.index}),
      ", limit_indices = ",
      array_of({node.index + 1}),
      ", strides = array<i64: 1>}> : (",
      tensor_type(carrier, {static_cast<std::int64_t>(count)}),
      ") -> ",
      tensor_type(carrier, {1}),
      "\n");
  text += str_cat(
      name,
      converts ? "_2" : "",
      " = \"stablehlo.reshape\"(",
      name,
      "_1) : (",
      tensor_type(carrier, {1}),
      ") -> ",
      carried,
      "\n");
  if (converts) {
    text += str_cat(
        name,
        " = \"stablehlo.convert\"(",
        name,
        "_2) : (",
        carried,
        ") -> ",
        tensor_type(node.type, {}),
        "\n");
  }
  return text;
}

std::string argument(const Trace& trace, std::size_t i) {
  const Node& node = *trace.inputs[i];
  std::string notes;
  if (trace.donated_to[i] >= 0) {
    notes = str_cat("tf.aliasing_output = ", trace.donated_to[i], " : i32");
  }
  if (trace.num_devices > 1) {
    notes += (notes.empty() ? "" : ", ") +
             sharding_attribute(node.array->sharding, node.shape.size());
  }
  return str_cat("%arg", i, ": ", tensor_type(node), braces(notes));
}

std::string arguments(const Trace& trace) {
  std::vector<std::string> list;
  for (std::size_t i = 0; i < trace.inputs.size(); ++i) {
    list.push_back(argument(trace, i));
  }
  for (std::size_t pack = 0; pack < trace.scalars.size(); ++pack) {
    const auto count = static_cast<std::int64_t>(trace.scalars[pack].size());
    if (count > 0) {
      list.push_back(str_cat(
          "%pack",
          pack,
          ": ",
          tensor_type(kScalarTypes[pack], {count}),
          trace.num_devices > 1 ? braces(sharding_attribute({}, 1)) : ""));
    }
  }
  std::string text;
  for (const std::string& item : list) {
    text += (text.empty() ? "" : ", ") + item;
  }
  return text;
}

std::string results(const Trace& trace) {
  std::string text;
  for (std::size_t i = 0; i < trace.outputs.size(); ++i) {
    const Node& node = *trace.outputs[i];
    text += (i > 0 ? ", " : "") + tensor_type(node);
    if (trace.num_devices > 1) {
      text += braces(
          sharding_attribute(trace.output_shardings[i], node.shape.size()));
    }
  }
  return text;
}

std::string return_statement(const Trace& trace) {
  std::string names;
  std::string types;
  for (const Node* node : trace.outputs) {
    const char* separator = names.empty() ? "" : ", ";
    names += separator + value_name(*node);
    types += separator + tensor_type(*node);
  }
  return str_cat("\"func.return\"(", names, ") : (", types, ") -> ()\n");
}

}  // namespace

std::string emit(const Trace& trace) {
  std::string text = str_cat(
      "module @step attributes {mhlo.num_replicas = 1 : i32, "
      "mhlo.num_partitions = ",
      trace.num_devices,
      " : i32} {\n");
  text.reserve(trace.nodes.size() * 200);
  if (trace.num_devices > 1) {
    text +=
        str_cat("sdy.mesh @mesh = <[\"devices\"=", trace.num_devices, "]>\n");
  }
  text += str_cat(
      "func.func public @main(",
      arguments(trace),
      ") -> (",
      results(trace),
      ") {\n");
  for (std::size_t pack = 0; pack < trace.scalars.size(); ++pack) {
    for (const Node* node : trace.scalars[pack]) {
      text += unpacked(*node, pack, trace.scalars[pack].size());
    }
  }
  for (const Node* node : trace.nodes) {
    text += statement(*node);
  }
  return text + return_statement(trace) + "}\n}\n";
}

}  // namespace accelerate::xla
