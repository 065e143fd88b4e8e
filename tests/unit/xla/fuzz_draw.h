// SPDX-License-Identifier: Apache-2.0
// What an operator of a random program may choose: operands, numbers, sizes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "unit/xla/fuzz_program.h"

namespace accelerate::xla {

/// A tensor of the program.
struct FuzzItem {
  at::Tensor tensor;
  /// Whether in-place operators may write to it.
  bool is_writable = false;
  /// Whether the elements are exactly the same on all devices, because they are
  /// input data and not results.
  bool is_exact = false;
};

/// No tensor of the program has the properties that an operator needs.
struct NoOperand : std::runtime_error {
  NoOperand() : std::runtime_error("no tensor fits") {}
};

/// The choices of one step. A statement must make at most one choice: compilers
/// evaluate arguments in different orders, but a seed must always give the same
/// program.
class FuzzDraw {
 public:
  /// `replayed` holds the positions in `items` of the tensors that this step
  /// chose in the run on the CPU. It is null in the run on the CPU.
  FuzzDraw(
      std::uint64_t seed,
      FuzzPlace place,
      at::ScalarType type,
      const std::vector<FuzzItem>& items,
      const std::vector<std::size_t>* replayed = nullptr)
      : state_(seed),
        place_(place),
        type_(type),
        items_(items),
        replayed_(replayed) {}

  // ---- numbers ----

  std::uint64_t bits();
  /// Returns a whole number in [0, bound).
  std::int64_t below(std::int64_t bound);
  std::int64_t between(std::int64_t low, std::int64_t high);
  bool chance(std::int64_t percent) { return below(100) < percent; }
  template <typename T>
  const T& one_of(std::span<const T> list) {
    return list[static_cast<std::size_t>(
        below(static_cast<std::int64_t>(list.size())))];
  }
  /// Like `below`, to choose a variant of an operator. `text` includes the
  /// choice.
  std::int64_t variant(std::int64_t bound);
  /// Returns a number in [-2, 2].
  double number();

  // ---- tensors ----

  using Test = std::function<bool(const at::Tensor&)>;

  /// Returns one of the program's tensors for which `fits` is true.
  at::Tensor any(const Test& fits = {});
  at::Tensor floating(const Test& fits = {});
  /// Returns a floating-point tensor whose elements may be compared with a
  /// threshold. Unless the type is f64, it has `is_exact`, because rounding may
  /// put a computed element on either side of the threshold.
  at::Tensor comparable(const Test& fits = {});
  at::Tensor integer(const Test& fits = {});
  at::Tensor boolean(const Test& fits = {});
  at::Tensor writable(const Test& fits = {});
  /// Returns a tensor that can be broadcast together with `x`.
  at::Tensor operand_for(const at::Tensor& x, const Test& fits = {});
  /// Returns indices in [0, bound), of shape `sizes`.
  at::Tensor indices(at::IntArrayRef sizes, std::int64_t bound);
  /// Returns a new floating-point tensor.
  at::Tensor fresh(at::IntArrayRef sizes);

  std::int64_t dim_of(const at::Tensor& x);

  // ---- where and how ----

  FuzzPlace place() const { return place_; }
  /// Returns `type`, or f64 if the program runs in f64.
  at::ScalarType placed_type(at::ScalarType type) const;
  /// Returns the type of most floating-point tensors of the program.
  at::ScalarType type() const { return placed_type(type_); }
  at::Tensor placed(const at::Tensor& tensor) const;
  /// Returns the tensor that was chosen first.
  const FuzzItem& first() const { return items_[chosen_.at(0)]; }
  /// Returns the positions of the chosen tensors in `items`.
  const std::vector<std::size_t>& chosen() const { return chosen_; }
  /// Returns the operands and variants chosen so far, for messages.
  const std::string& text() const { return text_; }

 private:
  using ItemTest = std::function<bool(const FuzzItem&)>;
  at::Tensor choose(const ItemTest& fits);
  std::size_t position_of_fitting(const ItemTest& fits);
  void append_text(const std::string& text);

  std::uint64_t state_;
  FuzzPlace place_;
  at::ScalarType type_;
  const std::vector<FuzzItem>& items_;
  const std::vector<std::size_t>* replayed_;
  std::vector<std::size_t> chosen_;
  std::string text_;
};

enum class FuzzKind : std::uint8_t {
  value,   ///< A new tensor.
  copy,    ///< A new tensor that may be written in place.
  view,    ///< Shares memory with the first operand.
  window,  ///< A view in which elements may share memory; never written.
  write,   ///< Changes the first operand.
};

struct FuzzOperator {
  std::string name;
  FuzzKind kind;
  std::function<at::Tensor(FuzzDraw&)> apply;
};

/// Families of operators. A step chooses a family, then one of its operators.
std::vector<FuzzOperator> fuzz_views();
std::vector<FuzzOperator> fuzz_writes();
std::vector<FuzzOperator> fuzz_elementwise();
std::vector<FuzzOperator> fuzz_integers();
std::vector<FuzzOperator> fuzz_reductions();
std::vector<FuzzOperator> fuzz_indexing();
std::vector<FuzzOperator> fuzz_layers();

}  // namespace accelerate::xla
