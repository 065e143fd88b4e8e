// SPDX-License-Identifier: Apache-2.0
// Operators that move elements by position. Views (transpose, slice, expand, …)
// need no rows: see device/tensors.h.
#include "accelerate/error.h"
#include "xla/lowerings/arithmetic.h"
#include "xla/lowerings/lowerings.h"

namespace accelerate::xla {
namespace {

// An empty 1-D tensor may be concatenated with tensors of any shape.
bool is_skipped(const at::Tensor& tensor) {
  return tensor.dim() == 1 && tensor.numel() == 0;
}

ElementType promoted_type(const std::vector<at::Tensor>& tensors) {
  c10::ScalarType type = tensors[0].scalar_type();
  for (const at::Tensor& tensor : tensors) {
    type = c10::promoteTypes(type, tensor.scalar_type());
  }
  return element_type_of(type);
}

void cat(Call& call) {
  const std::vector<at::Tensor> tensors = call.tensors(0);
  const ElementType type = promoted_type(tensors);
  std::vector<Value> parts;
  for (const at::Tensor& tensor : tensors) {
    if (!is_skipped(tensor)) {
      parts.push_back(convert(read(tensor), type));
    }
  }
  if (parts.empty()) {
    call.result(constant(0, type, {0}));
    return;
  }
  call.result(concatenate(parts, call.dim(1, parts[0]->shape.size())));
}

// triu and tril: compares column - row with the diagonal to decide which
// elements to keep.
Lowering triangle(const char* name, Compare direction) {
  return {name, [direction](Call& call) {
            const Value x = call.value(0);
            const std::int64_t rank = rank_of(x);
            const Value distance =
                sub(iota(ElementType::i64, x->shape, rank - 1),
                    iota(ElementType::i64, x->shape, rank - 2));
            const Value kept = compare(
                direction,
                distance,
                constant_integer(call.integer(1), ElementType::i64));
            call.result(select(kept, x, constant_like(0, x)));
          }};
}

void flip(Call& call) {
  const Value x = call.value(0);
  const Dims dims = call.integers(1);
  call.result(dims.empty() ? x : reverse(x, call.dims(1, x->shape.size())));
}

Value rolled(const Value& x, std::int64_t shift, std::int64_t dim) {
  const auto i = static_cast<std::size_t>(dim);
  const std::int64_t size = x->shape[i];
  const std::int64_t start = size == 0 ? 0 : ((-shift % size) + size) % size;
  if (start == 0) {
    return x;
  }
  Dims from(x->shape.size(), 0);
  Dims to = x->shape;
  from[i] = start;
  const Value tail = slice(x, from, x->shape);
  to[i] = start;
  return concatenate({tail, slice(x, Dims(x->shape.size(), 0), to)}, dim);
}

// roll(self, shifts, dims); without dims, rolls the flattened tensor.
void roll(Call& call) {
  Value x = call.value(0);
  const Dims shifts = call.integers(1);
  const Dims dims = call.integers(2);
  if (dims.empty()) {
    const Value flat = reshape(x, {element_count(x->shape)});
    call.result(reshape(rolled(flat, shifts.at(0), 0), x->shape));
    return;
  }
  for (std::size_t i = 0; i < dims.size(); ++i) {
    x = rolled(x, shifts[i], dims[i] < 0 ? dims[i] + rank_of(x) : dims[i]);
  }
  call.result(x);
}

// PyTorch lists padding from the last dimension: (low, high) for each.
void pad_with_constant(Call& call) {
  const Value x = call.value(0);
  const Dims padding = call.integers(1);
  Dims low(x->shape.size(), 0);
  Dims high(x->shape.size(), 0);
  for (std::size_t i = 0; 2 * i + 1 < padding.size(); ++i) {
    const std::size_t dim = x->shape.size() - 1 - i;
    low[dim] = padding[2 * i];
    high[dim] = padding[2 * i + 1];
  }
  call.result(pad(x, call.value(2, x->type), low, high));
}

void repeat(Call& call) {
  const Dims counts = call.integers(1);
  Value x = call.value(0);
  Shape shape(counts.size() - x->shape.size(), 1);
  shape.insert(shape.end(), x->shape.begin(), x->shape.end());
  x = reshape(x, shape);
  for (std::size_t dim = 0; dim < counts.size(); ++dim) {
    const std::vector<Value> copies(static_cast<std::size_t>(counts[dim]), x);
    x = copies.empty() ? slice(
                             x,
                             Dims(shape.size(), 0),
                             [&] {
                               Dims to = x->shape;
                               to[dim] = 0;
                               return to;
                             }())
                       : concatenate(copies, static_cast<std::int64_t>(dim));
  }
  call.result(x);
}

}  // namespace

Lowerings shape_lowerings() {
  return {
      {"cat", cat},
      triangle("triu", Compare::ge),
      triangle("tril", Compare::le),
      {"flip", flip},
      {"roll", roll},
      {"constant_pad_nd", pad_with_constant},
      {"repeat", repeat},
  };
}

}  // namespace accelerate::xla
