// SPDX-License-Identifier: Apache-2.0
// One call of an operator that is being lowered.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include <ATen/core/ivalue.h>

#include "xla/device/tensors.h"
#include "xla/graph/build.h"

namespace accelerate::xla {

/// The arguments of the call, by position in the operator's schema, and the
/// results of the call.
///
/// `value` accepts an XLA tensor, a CPU tensor without dimensions, or a number.
/// The last two become a `scalar` (see graph/build.h), so that a new value,
/// such as a new learning rate, does not require another compilation.
class Call {
 public:
  Call(std::string_view name, std::span<const c10::IValue> arguments)
      : name_(name), arguments_(arguments) {}

  std::string_view name() const { return name_; }
  std::size_t size() const { return arguments_.size(); }
  const c10::IValue& argument(std::size_t i) const { return arguments_[i]; }

  /// Returns whether the argument is a defined tensor.
  bool has_tensor(std::size_t i) const;
  /// Returns whether the argument is none or an undefined tensor.
  bool is_none(std::size_t i) const {
    return arguments_[i].isNone() ||
           (arguments_[i].isTensor() && !has_tensor(i));
  }
  const at::Tensor& tensor(std::size_t i) const;

  Value value(std::size_t i) const;
  /// Returns `value(i)` converted to `type`.
  Value value(std::size_t i, ElementType type) const;
  /// Returns the tensors in a list. An element that is none becomes an
  /// undefined tensor.
  std::vector<at::Tensor> tensors(std::size_t i) const;

  double number(std::size_t i) const;
  std::int64_t integer(std::size_t i) const;
  bool flag(std::size_t i) const;
  Dims integers(std::size_t i) const;
  std::string_view text(std::size_t i) const;

  /// Returns a dimension argument for a tensor with `rank` dimensions. Negative
  /// numbers count from the last dimension. The result is in [0, rank), or 0 if
  /// `rank` is 0.
  std::int64_t dim(std::size_t i, std::size_t rank) const;
  /// Like `dim`, for a list; the result is sorted. If the argument is none or
  /// an empty list, returns all dimensions.
  Dims dims(std::size_t i, std::size_t rank) const;

  ElementType type(std::size_t i) const;
  /// Returns the type to which PyTorch promotes the arguments (tensors or
  /// numbers) at the positions in `list`.
  ElementType promoted(const std::vector<std::size_t>& list) const;
  /// Returns the type for a dtype argument, or `otherwise` if the argument is
  /// none.
  ElementType dtype_or(std::size_t i, ElementType otherwise) const;

  /// Adds the next result. A null value stands for an undefined tensor.
  void result(Value value) { results_.push_back(std::move(value)); }
  const std::vector<Value>& results() const { return results_; }

 private:
  std::string_view name_;
  std::span<const c10::IValue> arguments_;
  std::vector<Value> results_;
};

/// Returns f32 if `type` is an integer type or boolean, as in PyTorch's
/// floating-point operators. Returns any other type unchanged.
ElementType float_type(ElementType type);
/// Returns the type in which sums of `type` are computed: f32 for f16 and bf16,
/// otherwise `type`.
ElementType accumulation_type(ElementType type);

}  // namespace accelerate::xla
