// SPDX-License-Identifier: Apache-2.0
// One call of an operator, as a lowering sees it.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include <ATen/core/ivalue.h>

#include "xla/device/tensors.h"
#include "xla/graph/build.h"

namespace accelerate::xla {

/// The arguments by their position in the operator's schema, and the results.
///
/// An argument that a lowering asks for as a value may be an XLA tensor, a CPU
/// tensor without dimensions, or a number. The last two become scalars: inputs
/// of the program, so that a learning rate does not compile again.
class Call {
 public:
  Call(std::string_view name, std::span<const c10::IValue> arguments)
      : name_(name), arguments_(arguments) {}

  std::string_view name() const { return name_; }
  std::size_t size() const { return arguments_.size(); }
  const c10::IValue& argument(std::size_t i) const { return arguments_[i]; }

  /// Whether the argument is a defined tensor.
  bool has_tensor(std::size_t i) const;
  bool is_none(std::size_t i) const { return arguments_[i].isNone(); }
  const at::Tensor& tensor(std::size_t i) const;

  Value value(std::size_t i) const;
  /// Converted to `type`.
  Value value(std::size_t i, ElementType type) const;
  /// All tensors of a list, which skips undefined ones if `optional`.
  std::vector<at::Tensor> tensors(std::size_t i) const;

  double number(std::size_t i) const;
  std::int64_t integer(std::size_t i) const;
  bool flag(std::size_t i) const;
  Dims integers(std::size_t i) const;
  std::string_view text(std::size_t i) const;

  /// A dimension argument, wrapped into 0 … rank-1 (or 0 for rank 0).
  std::int64_t dim(std::size_t i, std::size_t rank) const;
  /// A list of dimensions, wrapped and sorted; none or an empty list is all.
  Dims dims(std::size_t i, std::size_t rank) const;

  ElementType type(std::size_t i) const;
  /// The type that PyTorch promotes these arguments (tensors or numbers) to.
  ElementType promoted(const std::vector<std::size_t>& list) const;
  /// A dtype argument, or `otherwise` if it is none.
  ElementType dtype_or(std::size_t i, ElementType otherwise) const;

  /// Adds the next result. An undefined value is an undefined tensor.
  void result(Value value) { results_.push_back(std::move(value)); }
  const std::vector<Value>& results() const { return results_; }

 private:
  std::string_view name_;
  std::span<const c10::IValue> arguments_;
  std::vector<Value> results_;
};

/// Integers and booleans become f32, as PyTorch's float operators do.
ElementType float_type(ElementType type);
/// The type in which sums of `type` are computed: f32 for f16 and bf16.
ElementType accumulation_type(ElementType type);

}  // namespace accelerate::xla
