// SPDX-License-Identifier: Apache-2.0
// Reductions over dimensions, and related operators: argmax, sort, cumsum.
#include <cmath>
#include <limits>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "xla/lowerings/arithmetic.h"
#include "xla/lowerings/lowerings.h"

namespace accelerate::xla {
namespace {

// Integers are summed in i64.
ElementType sum_type(ElementType type) {
  return is_floating(type) ? type : ElementType::i64;
}

// Computes `make` in the accumulation type of `type`.
Value accumulated(
    const Value& x,
    ElementType type,
    const std::function<Value(const Value&)>& make) {
  return convert(make(convert(x, accumulation_type(type))), type);
}

Value summed(const Call& call, const Dims& dims, bool keep, std::size_t dtype) {
  const ElementType type = call.dtype_or(dtype, sum_type(call.type(0)));
  return accumulated(
      call.value(0), type, [&](const Value& x) { return sum(x, dims, keep); });
}

std::size_t rank_at(const Call& call, std::size_t i) {
  return static_cast<std::size_t>(call.tensor(i).dim());
}

void sum_of_all(Call& call) {
  call.result(summed(call, range_of_dims(0, call.tensor(0).dim()), false, 1));
}

void sum_over_dims(Call& call) {
  call.result(summed(call, call.dims(1, rank_at(call, 0)), call.flag(2), 3));
}

void mean_over(Call& call, const Dims& dims, bool keep, std::size_t dtype) {
  const ElementType type = call.dtype_or(dtype, call.type(0));
  call.result(accumulated(call.value(0), type, [&](const Value& x) {
    return mean(x, dims, keep);
  }));
}

void product_over(Call& call, const Dims& dims, bool keep, std::size_t dtype) {
  const ElementType type = call.dtype_or(dtype, sum_type(call.type(0)));
  call.result(reduce(Op::multiply, call.value(0, type), dims, keep));
}

// ---- variance ----

Value variance(const Value& x, const Dims& dims, double correction, bool keep) {
  const Value centered = sub(x, mean(x, dims, true));
  const double count = static_cast<double>(count_of(x, dims)) - correction;
  return divide(
      sum(square(centered), dims, keep),
      constant_like(std::max(count, 0.0), x));
}

double correction_of(const Call& call, std::size_t i) {
  return call.is_none(i) ? 1.0 : call.number(i);
}

// var.correction(self, dim, correction, keepdim) and std.correction.
Lowering spread(const char* name, bool root) {
  return {name, [root](Call& call) {
            const ElementType type = call.type(0);
            const Dims dims = call.dims(1, rank_at(call, 0));
            call.result(accumulated(call.value(0), type, [&](const Value& x) {
              const Value result =
                  variance(x, dims, correction_of(call, 2), call.flag(3));
              return root ? sqrt(result) : result;
            }));
          }};
}

void variance_and_mean(Call& call) {
  const ElementType type = call.type(0);
  const Dims dims = call.dims(1, rank_at(call, 0));
  const Value x = call.value(0, accumulation_type(type));
  call.result(
      convert(variance(x, dims, correction_of(call, 2), call.flag(3)), type));
  call.result(convert(mean(x, dims, call.flag(3)), type));
}

// ---- extrema and their positions ----

// The first position of `extreme` along `dim`. NaN counts as both the largest
// and the smallest, as on the CPU.
Value position_of(const Value& x, const Value& extreme, std::int64_t dim) {
  Value found = compare(Compare::eq, x, extreme);
  if (is_floating(x->type)) {
    found = binary(Op::logical_or, found, compare(Compare::ne, x, x));
  }
  const Value none = identity(Op::minimum, ElementType::i64);
  return reduce(
      Op::minimum,
      select(found, iota(ElementType::i64, x->shape, dim), none),
      {dim},
      true);
}

Value without_dim(const Value& x, std::int64_t dim, bool keep) {
  if (keep || x->shape.empty()) {
    return x;
  }
  Shape shape = x->shape;
  shape.erase(shape.begin() + dim);
  return reshape(x, shape);
}

struct Extreme {
  Value value;
  Value position;
};

Extreme extreme_along(Op op, const Value& x, std::int64_t dim, bool keep) {
  if (x->shape.empty()) {
    return {x, constant(0, ElementType::i64)};
  }
  const Value extreme = reduce(op, x, {dim}, true);
  const Value position = position_of(x, extreme, dim);
  return {without_dim(extreme, dim, keep), without_dim(position, dim, keep)};
}

// max.dim and min.dim: values and indices.
Lowering extreme_with_index(const char* name, Op op) {
  return {name, [op](Call& call) {
            const Extreme found = extreme_along(
                op, call.value(0), call.dim(1, rank_at(call, 0)), call.flag(2));
            call.result(found.value);
            call.result(found.position);
          }};
}

Lowering extreme_over_dims(const char* name, Op op) {
  return {
      name, [op](Call& call) {
        call.result(reduce(
            op, call.value(0), call.dims(1, rank_at(call, 0)), call.flag(2)));
      }};
}

Lowering extreme_of_all(const char* name, Op op) {
  return {name, [op](Call& call) {
            call.result(reduce(
                op, call.value(0), range_of_dims(0, call.tensor(0).dim())));
          }};
}

// argmax and argmin(self, dim=None, keepdim)
Lowering extreme_index(const char* name, Op op) {
  return {name, [op](Call& call) {
            const Value x = call.value(0);
            if (!call.is_none(1)) {
              call.result(extreme_along(
                              op, x, call.dim(1, x->shape.size()), call.flag(2))
                              .position);
              return;
            }
            const Value flat = reshape(x, {element_count(x->shape)});
            const Value position = extreme_along(op, flat, 0, false).position;
            call.result(
                call.flag(2) ? reshape(position, Shape(x->shape.size(), 1))
                             : position);
          }};
}

// ---- all and any ----

Value boolean_reduction(Op op, const Value& x, const Dims& dims, bool keep) {
  const Value result = reduce(op, convert(x, ElementType::pred), dims, keep);
  return x->type == ElementType::u8 ? convert(result, x->type) : result;
}

Lowering truth_of_all(const char* name, Op op) {
  return {
      name, [op](Call& call) {
        call.result(boolean_reduction(
            op, call.value(0), range_of_dims(0, call.tensor(0).dim()), false));
      }};
}

Lowering truth_along(const char* name, Op op) {
  return {name, [op](Call& call) {
            const Value x = call.value(0);
            const Dims dims =
                x->shape.empty() ? Dims() : Dims{call.dim(1, x->shape.size())};
            call.result(boolean_reduction(op, x, dims, call.flag(2)));
          }};
}

// ---- norms ----

Value norm(const Value& x, double p, const Dims& dims, bool keep) {
  const Value size = unary(Op::abs, x);
  if (std::isinf(p)) {
    return reduce(p > 0 ? Op::maximum : Op::minimum, size, dims, keep);
  }
  if (p == 0) {
    const Value nonzero = compare(Compare::ne, x, constant_like(0, x));
    return sum(convert(nonzero, x->type), dims, keep);
  }
  if (p == 1) {
    return sum(size, dims, keep);
  }
  if (p == 2) {
    return sqrt(sum(square(x), dims, keep));
  }
  const Value powers = binary(Op::power, size, constant_like(p, x));
  return binary(Op::power, sum(powers, dims, keep), constant_like(1 / p, x));
}

// linalg_vector_norm(self, ord, dim, keepdim, dtype)
void vector_norm(Call& call) {
  const ElementType type = call.dtype_or(4, call.type(0));
  const Dims dims = call.dims(2, rank_at(call, 0));
  call.result(accumulated(call.value(0), type, [&](const Value& x) {
    return norm(x, call.number(1), dims, call.flag(3));
  }));
}

// norm.ScalarOpt_dim(self, p, dim, keepdim)
void norm_over_dims(Call& call) {
  const double p = call.is_none(1) ? 2.0 : call.number(1);
  const Dims dims = call.dims(2, rank_at(call, 0));
  call.result(accumulated(call.value(0), call.type(0), [&](const Value& x) {
    return norm(x, p, dims, call.flag(3));
  }));
}

void norm_of_all(Call& call) {
  const Dims dims = range_of_dims(0, call.tensor(0).dim());
  call.result(accumulated(call.value(0), call.type(0), [&](const Value& x) {
    return norm(x, call.number(1), dims, false);
  }));
}

// An infinite maximum is not subtracted: the difference would be NaN.
Value log_sum_exp(const Value& x, const Dims& dims, bool keep) {
  const Value largest = reduce(Op::maximum, x, dims, true);
  const Value shift =
      select(unary(Op::is_finite, largest), largest, constant_like(0, x));
  const Value total = log(sum(exp(sub(x, shift)), dims, true));
  const Value result = add(total, shift);
  return keep ? result : reshape(result, sum(x, dims)->shape);
}

void log_sum_exp_over_dims(Call& call) {
  const Dims dims = call.dims(1, rank_at(call, 0));
  call.result(
      accumulated(call.value(0), float_type(call.type(0)), [&](const Value& x) {
        return log_sum_exp(x, dims, call.flag(2));
      }));
}

// ---- along one dimension ----

// A running reduction as a window that reaches back to the first element.
Value running(Op op, const Value& x, std::int64_t dim) {
  const std::size_t rank = x->shape.size();
  Window window{
      Dims(rank, 1),
      Dims(rank, 1),
      Dims(rank, 0),
      Dims(rank, 0),
      Dims(rank, 1)};
  const auto position = static_cast<std::size_t>(dim);
  window.size[position] = x->shape[position];
  window.low[position] = x->shape[position] - 1;
  return reduce_window(op, x, window);
}

Lowering running_reduction(const char* name, Op op) {
  return {name, [op](Call& call) {
            const ElementType type = call.dtype_or(2, sum_type(call.type(0)));
            const Value x = call.value(0, type);
            call.result(
                x->shape.empty()
                    ? x
                    : running(op, x, call.dim(1, x->shape.size())));
          }};
}

struct Sorted {
  Value values;
  Value indices;
};

Sorted sorted(const Value& x, std::int64_t dim, bool descending) {
  if (x->shape.empty()) {
    return {x, constant(0, ElementType::i64)};
  }
  const auto [values, indices] =
      sort(x, iota(ElementType::i64, x->shape, dim), dim, descending);
  return {values, indices};
}

void sort_along(Call& call) {
  const Value x = call.value(0);
  const Sorted result = sorted(x, call.dim(1, x->shape.size()), call.flag(2));
  call.result(result.values);
  call.result(result.indices);
}

// sort.stable(self, stable, dim, descending)
void stable_sort_along(Call& call) {
  const Value x = call.value(0);
  const Sorted result = sorted(x, call.dim(2, x->shape.size()), call.flag(3));
  call.result(result.values);
  call.result(result.indices);
}

Value first_along(const Value& x, std::int64_t dim, std::int64_t count) {
  if (x->shape.empty()) {
    return x;
  }
  Dims to = x->shape;
  to[static_cast<std::size_t>(dim)] = count;
  return slice(x, Dims(x->shape.size(), 0), to);
}

// topk(self, k, dim, largest, sorted)
void largest_along(Call& call) {
  const Value x = call.value(0);
  const std::int64_t dim = call.dim(2, x->shape.size());
  const Sorted result = sorted(x, dim, call.flag(3));
  call.result(first_along(result.values, dim, call.integer(1)));
  call.result(first_along(result.indices, dim, call.integer(1)));
}

}  // namespace

Lowerings reduction_lowerings() {
  return {
      {"sum", sum_of_all},
      {"sum.dim_IntList", sum_over_dims},
      {"mean",
       [](Call& call) {
         mean_over(call, range_of_dims(0, call.tensor(0).dim()), false, 1);
       }},
      {"mean.dim",
       [](Call& call) {
         mean_over(call, call.dims(1, rank_at(call, 0)), call.flag(2), 3);
       }},
      {"prod",
       [](Call& call) {
         product_over(call, range_of_dims(0, call.tensor(0).dim()), false, 1);
       }},
      {"prod.dim_int",
       [](Call& call) {
         product_over(call, {call.dim(1, rank_at(call, 0))}, call.flag(2), 3);
       }},
      spread("var.correction", false),
      spread("std.correction", true),
      {"var_mean.correction", variance_and_mean},
      extreme_with_index("max.dim", Op::maximum),
      extreme_with_index("min.dim", Op::minimum),
      extreme_over_dims("amax", Op::maximum),
      extreme_over_dims("amin", Op::minimum),
      extreme_of_all("max", Op::maximum),
      extreme_of_all("min", Op::minimum),
      extreme_index("argmax", Op::maximum),
      extreme_index("argmin", Op::minimum),
      truth_of_all("all", Op::logical_and),
      truth_of_all("any", Op::logical_or),
      truth_along("all.dim", Op::logical_and),
      truth_along("any.dim", Op::logical_or),
      {"linalg_vector_norm", vector_norm},
      {"norm.ScalarOpt_dim", norm_over_dims},
      {"norm.Scalar", norm_of_all},
      {"logsumexp", log_sum_exp_over_dims},
      running_reduction("cumsum", Op::add),
      running_reduction("cumprod", Op::multiply),
      {"sort", sort_along},
      {"sort.stable", stable_sort_along},
      {"topk", largest_along},
  };
}

}  // namespace accelerate::xla
