// SPDX-License-Identifier: Apache-2.0
#include "unit/xla/fuzz_draw.h"

#include <sstream>

namespace accelerate::xla {
namespace {

std::string description(std::size_t position, const at::Tensor& tensor) {
  std::ostringstream text;
  text << "t" << position << " " << tensor.scalar_type() << " "
       << tensor.sizes();
  return text.str();
}

bool can_broadcast(at::IntArrayRef a, at::IntArrayRef b) {
  for (std::size_t i = 1; i <= std::min(a.size(), b.size()); ++i) {
    const auto x = a[a.size() - i];
    const auto y = b[b.size() - i];
    if (x != y && x != 1 && y != 1) {
      return false;
    }
  }
  return true;
}

bool passes(const FuzzDraw::Test& test, const at::Tensor& tensor) {
  return !test || test(tensor);
}

}  // namespace

// SplitMix64: consecutive seeds give independent programs.
std::uint64_t FuzzDraw::bits() {
  state_ += 0x9e3779b97f4a7c15;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

std::int64_t FuzzDraw::below(std::int64_t bound) {
  return static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(bound));
}

std::int64_t FuzzDraw::between(std::int64_t low, std::int64_t high) {
  return low + below(high - low + 1);
}

std::int64_t FuzzDraw::variant(std::int64_t bound) {
  const std::int64_t number = below(bound);
  append_text("variant " + std::to_string(number));
  return number;
}

double FuzzDraw::number() {
  return static_cast<double>(between(-200, 200)) / 100;
}

std::size_t FuzzDraw::position_of_fitting(const ItemTest& fits) {
  std::vector<std::size_t> fitting;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    if (fits(items_[i])) {
      fitting.push_back(i);
    }
  }
  if (fitting.empty()) {
    throw NoOperand();
  }
  return one_of<std::size_t>(fitting);
}

// What fits depends on types, which are others in f64: the choice of the run on
// the CPU counts.
at::Tensor FuzzDraw::choose(const ItemTest& fits) {
  std::size_t position = 0;
  if (replayed_ != nullptr) {
    bits();
    position = replayed_->at(chosen_.size());
  } else {
    position = position_of_fitting(fits);
  }
  chosen_.push_back(position);
  append_text(description(position, items_[position].tensor));
  return items_[position].tensor;
}

void FuzzDraw::append_text(const std::string& text) {
  text_ += (text_.empty() ? "" : ", ") + text;
}

at::Tensor FuzzDraw::any(const Test& fits) {
  return choose(
      [&](const FuzzItem& item) { return passes(fits, item.tensor); });
}

at::Tensor FuzzDraw::floating(const Test& fits) {
  return choose([&](const FuzzItem& item) {
    return item.tensor.is_floating_point() && passes(fits, item.tensor);
  });
}

at::Tensor FuzzDraw::comparable(const Test& fits) {
  return choose([&](const FuzzItem& item) {
    return item.tensor.is_floating_point() &&
           (item.is_exact || type_ == at::kDouble) && passes(fits, item.tensor);
  });
}

at::Tensor FuzzDraw::integer(const Test& fits) {
  return choose([&](const FuzzItem& item) {
    return item.tensor.scalar_type() == at::kLong && passes(fits, item.tensor);
  });
}

at::Tensor FuzzDraw::boolean(const Test& fits) {
  return choose([&](const FuzzItem& item) {
    return item.tensor.scalar_type() == at::kBool && passes(fits, item.tensor);
  });
}

at::Tensor FuzzDraw::writable(const Test& fits) {
  return choose([&](const FuzzItem& item) {
    return item.is_writable && passes(fits, item.tensor);
  });
}

at::Tensor FuzzDraw::operand_for(const at::Tensor& x, const Test& fits) {
  return any([&](const at::Tensor& tensor) {
    return can_broadcast(x.sizes(), tensor.sizes()) && passes(fits, tensor);
  });
}

at::Tensor FuzzDraw::placed(const at::Tensor& tensor) const {
  return place_ == FuzzPlace::xla ? tensor.to(c10::Device("xla:0")) : tensor;
}

at::ScalarType FuzzDraw::placed_type(at::ScalarType type) const {
  return place_ == FuzzPlace::cpu_in_f64 ? at::kDouble : type;
}

at::Tensor FuzzDraw::indices(at::IntArrayRef sizes, std::int64_t bound) {
  const at::Tensor list = at::empty(sizes, at::kLong);
  for (std::int64_t i = 0; i < list.numel(); ++i) {
    list.mutable_data_ptr<std::int64_t>()[i] = below(bound);
  }
  return placed(list);
}

// Half of them have quarters only, so that elements are equal to each other, to
// zero and to whole numbers. Every type represents quarters and 256ths exactly.
at::Tensor FuzzDraw::fresh(at::IntArrayRef sizes) {
  const std::int64_t parts = chance(50) ? 4 : 64;
  const at::Tensor list = at::empty(sizes, at::kDouble);
  for (std::int64_t i = 0; i < list.numel(); ++i) {
    list.mutable_data_ptr<double>()[i] =
        static_cast<double>(between(-2 * parts, 2 * parts)) /
        static_cast<double>(parts);
  }
  return placed(list.to(type()));
}

std::int64_t FuzzDraw::dim_of(const at::Tensor& x) {
  return x.dim() == 0 ? 0 : between(-x.dim(), x.dim() - 1);
}

}  // namespace accelerate::xla
