// SPDX-License-Identifier: Apache-2.0
// The operators of random programs.
//
// Functions that grow quickly or are not defined everywhere get an argument in
// a range that suits them, so that values stay near 1.
#include <array>

#include "unit/xla/fuzz_draw.h"

namespace accelerate::xla {
namespace {

using at::Tensor;
using Dims = std::vector<std::int64_t>;
using Function = Tensor (*)(const Tensor&);
using Function2 = Tensor (*)(const Tensor&, const Tensor&);

FuzzDraw::Test rank_at_least(std::int64_t rank) {
  return [rank](const Tensor& x) { return x.dim() >= rank; };
}

FuzzDraw::Test not_empty(std::int64_t rank = 0) {
  return [rank](const Tensor& x) { return x.dim() >= rank && x.numel() > 0; };
}

std::int64_t size_at(const Tensor& x, std::int64_t dim) {
  return x.dim() == 0 ? 1 : x.size(dim);
}

Dims shuffled_dims(FuzzDraw& draw, std::int64_t rank) {
  Dims dims;
  for (std::int64_t dim = 0; dim < rank; ++dim) {
    dims.insert(dims.begin() + draw.below(dim + 1), dim);
  }
  return dims;
}

// Some dimensions, each at most once.
Dims some_dims(FuzzDraw& draw, const Tensor& x) {
  Dims dims = shuffled_dims(draw, x.dim());
  dims.resize(static_cast<std::size_t>(draw.between(0, x.dim())));
  return dims;
}

// ---- views ----

Tensor sliced(FuzzDraw& draw) {
  const Tensor x = draw.any(rank_at_least(1));
  const std::int64_t dim = draw.dim_of(x);
  const std::int64_t size = x.size(dim);
  const std::int64_t start = draw.between(-size, size);
  const std::int64_t end = draw.between(-size, size + 1);
  return x.slice(dim, start, end, draw.between(1, 3));
}

Tensor selected(FuzzDraw& draw) {
  const Tensor x = draw.any(rank_at_least(1));
  const std::int64_t dim = draw.dim_of(x);
  const std::int64_t size = x.size(dim);
  return x.select(
      dim, draw.between(-size, std::max<std::int64_t>(size - 1, 0)));
}

Tensor reshaped(FuzzDraw& draw) {
  const Tensor x = draw.any();
  switch (draw.variant(4)) {
    case 0:
      return x.reshape({-1});
    case 1:
      return x.dim() > 1 ? x.flatten(0, 1) : x.unsqueeze(0);
    case 2:
      return x.dim() > 0 && x.size(-1) % 2 == 0
                 ? x.unflatten(-1, {2, x.size(-1) / 2})
                 : x.unsqueeze(-1);
    default:
      return x.view(
          shuffled_dims(draw, x.dim()).empty()
              ? Dims{1}
              : Dims{
                    x.size(0),
                    x.numel() / std::max<std::int64_t>(x.size(0), 1)});
  }
}

Tensor diagonal(FuzzDraw& draw) {
  const Tensor x = draw.any(rank_at_least(2));
  const Dims dims = shuffled_dims(draw, x.dim());
  return x.diagonal(draw.between(-1, 1), dims[0], dims[1]);
}

Tensor part(FuzzDraw& draw) {
  const Tensor x = draw.any(rank_at_least(1));
  const std::int64_t count = draw.between(1, 3);
  const auto parts = x.chunk(count, draw.dim_of(x));
  return parts[static_cast<std::size_t>(
      draw.below(static_cast<std::int64_t>(parts.size())))];
}

Tensor expanded(FuzzDraw& draw) {
  const Tensor x = draw.any();
  Dims sizes = x.sizes().vec();
  for (std::int64_t& size : sizes) {
    size = size == 1 ? draw.between(1, 3) : -1;
  }
  sizes.insert(sizes.begin(), draw.between(1, 3));
  return x.expand(sizes);
}

// ---- in-place writes ----

// Neither a part of `x` nor around it: the result would depend on the order in
// which elements are written.
Tensor source_for(FuzzDraw& draw, const Tensor& x) {
  return draw.any([&x](const Tensor& source) {
    if (source.dim() > x.dim() ||
        (source.storage().is_alias_of(x.storage()) && !source.is_same(x))) {
      return false;
    }
    for (std::int64_t i = 1; i <= source.dim(); ++i) {
      if (source.size(-i) != 1 && source.size(-i) != x.size(-i)) {
        return false;
      }
    }
    return true;
  });
}

Tensor written_with(
    FuzzDraw& draw, const std::function<Tensor(Tensor, const Tensor&)>& write) {
  const Tensor x = draw.writable();
  return write(x, source_for(draw, x));
}

Tensor filled(FuzzDraw& draw) {
  const Tensor x = draw.writable();
  switch (draw.variant(4)) {
    case 0:
      return x.fill_(draw.number());
    case 1:
      return x.zero_();
    case 2:
      return x.mul_(draw.number());
    default:
      return x.add_(draw.between(-3, 3));
  }
}

Tensor masked(FuzzDraw& draw) {
  const Tensor x = draw.writable();
  const Tensor mask = draw.boolean([&x](const Tensor& candidate) {
    return candidate.sizes() == x.sizes() || candidate.dim() == 0;
  });
  return x.masked_fill_(mask, draw.number());
}

Tensor put_at_indices(FuzzDraw& draw) {
  const Tensor x = draw.writable(not_empty(1));
  const bool accumulates = draw.chance(50);
  // Without accumulation, the last of two writes to an element is unspecified.
  const std::int64_t count = accumulates ? 3 : 1;
  Dims sizes = x.sizes().vec();
  sizes[0] = count;
  const Tensor index =
      draw.indices({count}, x.size(0)) - (draw.chance(30) ? x.size(0) : 0);
  return at::index_put_(
      const_cast<Tensor&>(x),
      {index},
      draw.fresh(sizes).to(x.scalar_type()),
      accumulates);
}

Tensor added_at_indices(FuzzDraw& draw) {
  Tensor x = draw.writable([](const Tensor& tensor) {
    return tensor.is_floating_point() && not_empty(1)(tensor);
  });
  const std::int64_t dim = draw.dim_of(x);
  Dims sizes = x.sizes().vec();
  const std::int64_t size = x.size(dim);
  sizes[static_cast<std::size_t>(dim < 0 ? dim + x.dim() : dim)] = 3;
  const Tensor source = draw.fresh(sizes).to(x.scalar_type());
  return draw.chance(50)
             ? x.index_add_(dim, draw.indices({3}, size), source)
             : x.scatter_add_(dim, draw.indices(sizes, size), source);
}

Tensor unary_written(FuzzDraw& draw) {
  Tensor x = draw.writable(
      [](const Tensor& tensor) { return tensor.is_floating_point(); });
  switch (draw.variant(6)) {
    case 0:
      return x.tanh_();
    case 1:
      return x.neg_();
    case 2:
      return x.sigmoid_();
    case 3:
      return x.clamp_(-1, 1);
    case 4:
      return x.relu_();
    default:
      return x.sin_();
  }
}

// ---- element by element ----

FuzzOperator unary(const char* name, Function function) {
  return {name, FuzzKind::value, [function](FuzzDraw& draw) {
            return function(draw.floating());
          }};
}

// Has steps: a computed argument may be on either side of one.
FuzzOperator stepped(const char* name, Function function) {
  return {name, FuzzKind::value, [function](FuzzDraw& draw) {
            return function(draw.comparable());
          }};
}

FuzzOperator binary(const char* name, Function2 function) {
  return {name, FuzzKind::value, [function](FuzzDraw& draw) {
            const Tensor x = draw.any();
            return function(x, draw.operand_for(x));
          }};
}

FuzzOperator binary_of_floats(const char* name, Function2 function) {
  return {name, FuzzKind::value, [function](FuzzDraw& draw) {
            const Tensor x = draw.floating();
            return function(x, draw.operand_for(x, [&x](const Tensor& other) {
              return other.scalar_type() == x.scalar_type();
            }));
          }};
}

Tensor compared(FuzzDraw& draw) {
  const Tensor x = draw.comparable();
  const auto fits = [&x](const Tensor& other) {
    return other.dim() <= x.dim() && other.is_floating_point();
  };
  const Tensor y = draw.chance(30) ? x.mul(0).add(draw.between(-1, 1))
                                   : draw.comparable(fits);
  switch (draw.variant(6)) {
    case 0:
      return x < y;
    case 1:
      return x <= y;
    case 2:
      return x > y;
    case 3:
      return x >= y;
    case 4:
      return x.eq(y);
    default:
      return x.ne(draw.between(-1, 1));
  }
}

Tensor chosen_elements(FuzzDraw& draw) {
  const Tensor condition = draw.boolean();
  const Tensor x = draw.operand_for(condition);
  return draw.chance(50) ? at::where(condition, x, draw.operand_for(x))
                         : at::where(condition, x, draw.number());
}

Tensor clamped(FuzzDraw& draw) {
  const Tensor x = draw.floating();
  switch (draw.variant(4)) {
    case 0:
      return x.clamp(-0.7, 0.9);
    case 1:
      return x.clamp_min(draw.number());
    case 2:
      return x.clamp_max(draw.number());
    default:
      return at::clamp(x, x.detach().neg(), at::Tensor());
  }
}

Tensor cast(FuzzDraw& draw) {
  constexpr at::ScalarType kTypes[] = {at::kFloat, at::kDouble, at::kBFloat16};
  const Tensor x = draw.any();
  return x.to(draw.placed_type(
      draw.chance(70) ? draw.type() : draw.one_of<at::ScalarType>(kTypes)));
}

Tensor with_number(FuzzDraw& draw) {
  const Tensor x = draw.any();
  switch (draw.variant(8)) {
    case 0:
      return x + draw.number();
    case 1:
      return x * draw.between(-2, 2);
    case 2:
      return at::rsub(x, draw.number());
    case 3:
      return x / 1.5;
    case 4:
      return x - draw.between(-2, 2);
    case 5:
      return at::add(x, x, draw.between(-2, 2));
    case 6:
      return x.pow(draw.between(0, 3));
    default:
      return at::pow(2, x.clamp(-2, 2));
  }
}

// ---- integers and booleans ----

Tensor whole_numbers(FuzzDraw& draw) {
  const Tensor x = draw.integer();
  const Tensor y = draw.integer([&x](const Tensor& other) {
    return other.sizes() == x.sizes() || other.dim() == 0;
  });
  switch (draw.variant(11)) {
    case 0:
      return x + y;
    case 1:
      return x * y;
    case 2:
      return x - y;
    case 3:
      return x.remainder(draw.chance(50) ? 3 : -3);
    case 4:
      return x.floor_divide(draw.chance(50) ? 2 : -2);
    case 5:
      return at::div(x, y.abs() + 1, "trunc");
    case 6:
      return x.fmod(3);
    case 7:
      return at::maximum(x, y);
    case 8:
      return x & y;
    case 9:
      return x | y;
    default:
      return x / (y.abs() + 1);
  }
}

Tensor logic(FuzzDraw& draw) {
  const Tensor x = draw.boolean();
  const Tensor y = draw.boolean([&x](const Tensor& other) {
    return other.sizes() == x.sizes() || other.dim() == 0;
  });
  switch (draw.variant(6)) {
    case 0:
      return x & y;
    case 1:
      return x | y;
    case 2:
      return x ^ y;
    case 3:
      return x.logical_not();
    case 4:
      return x.to(at::kLong);
    default:
      return x.bitwise_not();
  }
}

Tensor whole_comparison(FuzzDraw& draw) {
  const Tensor x = draw.integer();
  return draw.chance(50) ? x > draw.between(-1, 2) : x.eq(draw.integer());
}

Tensor truncated_to_integers(FuzzDraw& draw) {
  return draw.comparable().to(at::kLong);
}

// ---- reductions ----

Tensor reduced(FuzzDraw& draw) {
  const Tensor x = draw.any();
  const Dims dims = some_dims(draw, x);
  const bool keep = draw.chance(50);
  switch (draw.variant(4)) {
    case 0:
      return x.sum(dims, keep);
    case 1:
      return x.sum();
    case 2:
      return x.dim() > 0 ? x.cumsum(draw.dim_of(x)) : x.cumsum(0);
    default:
      return x.sum(dims, keep, at::kDouble);
  }
}

// Rounding may change whether an element is zero.
Tensor exact(FuzzDraw& draw) {
  switch (draw.below(3)) {
    case 0:
      return draw.comparable();
    case 1:
      return draw.integer();
    default:
      return draw.boolean();
  }
}

Tensor any_or_all(FuzzDraw& draw) {
  const Tensor x = exact(draw);
  const bool keep = draw.chance(50);
  switch (draw.variant(4)) {
    case 0:
      return x.any();
    case 1:
      return x.all();
    case 2:
      return x.dim() > 0 ? x.any(draw.dim_of(x), keep) : x.any();
    default:
      return x.dim() > 0 ? x.all(draw.dim_of(x), keep) : x.all();
  }
}

Tensor reduced_float(FuzzDraw& draw) {
  const Tensor x = draw.floating(not_empty());
  const Dims dims = some_dims(draw, x);
  const bool keep = draw.chance(50);
  switch (draw.variant(13)) {
    case 0:
      return x.mean(dims, keep);
    case 1:
      return x.mean();
    case 2:
      return x.amax(dims, keep);
    case 3:
      return x.amin(dims, keep);
    case 4:
      return x.var(dims, draw.chance(50), keep);
    case 5:
      return x.std(dims, false, keep);
    case 6:
      return at::logsumexp(x, dims, keep);
    case 7:
      return at::linalg_vector_norm(x, draw.between(1, 3), dims, keep);
    case 8:
      return x.dim() > 0 ? x.prod(draw.dim_of(x), keep) : x.prod();
    case 9:
      return at::softmax(x, draw.dim_of(x));
    case 10:
      return at::log_softmax(x, draw.dim_of(x));
    case 11:
      return std::get<0>(at::var_mean(x, dims, false, keep));
    default:
      return x.norm();
  }
}

Tensor extreme(FuzzDraw& draw) {
  const Tensor x = draw.comparable(not_empty());
  const bool keep = draw.chance(50);
  const std::int64_t dim = draw.dim_of(x);
  switch (draw.variant(8)) {
    case 0:
      return std::get<0>(x.max(dim, keep));
    case 1:
      return std::get<1>(x.max(dim, keep));
    case 2:
      return std::get<0>(x.min(dim, keep));
    case 3:
      return x.argmax(dim, keep);
    case 4:
      return x.argmin(dim, keep);
    case 5:
      return x.max();
    case 6:
      return x.argmax();
    default:
      return x.min();
  }
}

Tensor ordered(FuzzDraw& draw) {
  const Tensor x = draw.comparable(not_empty());
  const std::int64_t dim = draw.dim_of(x);
  switch (draw.variant(4)) {
    case 0:
      return std::get<0>(x.sort(true, dim, draw.chance(50)));
    case 1:
      return std::get<1>(x.sort(true, dim, draw.chance(50)));
    case 2: {
      // Which of several equal elements it takes, and so the gradient, is
      // unspecified.
      const std::int64_t count = draw.between(1, size_at(x, dim));
      return std::get<0>(x.detach().topk(count, dim, draw.chance(50)));
    }
    default:
      return at::argsort(x, true, dim, false);
  }
}

// ---- positions ----

Tensor gathered(FuzzDraw& draw) {
  const Tensor x = draw.any(not_empty(1));
  const std::int64_t dim = draw.dim_of(x);
  Dims sizes = x.sizes().vec();
  sizes[static_cast<std::size_t>(dim < 0 ? dim + x.dim() : dim)] = 2;
  return x.gather(dim, draw.indices(sizes, x.size(dim)));
}

Tensor selected_rows(FuzzDraw& draw) {
  const Tensor x = draw.any(not_empty(1));
  const std::int64_t dim = draw.dim_of(x);
  return x.index_select(dim, draw.indices({draw.between(1, 4)}, x.size(dim)));
}

// Index tensors at some dimensions, adjacent or not, some with a second
// dimension, some negative.
Tensor indexed(FuzzDraw& draw) {
  const Tensor x = draw.any(not_empty(1));
  c10::List<std::optional<Tensor>> indices;
  bool has_index = false;
  for (std::int64_t dim = 0; dim < x.dim(); ++dim) {
    if (!draw.chance(60) && (has_index || dim + 1 < x.dim())) {
      indices.push_back(std::nullopt);
      continue;
    }
    has_index = true;
    const Dims sizes = draw.chance(30) ? Dims{2, 1} : Dims{3};
    const Tensor positions = draw.indices(sizes, x.size(dim));
    indices.push_back(positions - (draw.chance(20) ? x.size(dim) : 0));
  }
  return x.index(indices);
}

Tensor joined(FuzzDraw& draw) {
  const Tensor x = draw.any();
  const auto same = [&x](const Tensor& other) {
    return other.sizes() == x.sizes();
  };
  const Tensor y = draw.any(same);
  const std::int64_t dim = draw.dim_of(x);
  return x.dim() > 0 && draw.chance(60) ? at::cat({x, y, x}, dim)
                                        : at::stack({x, y}, dim);
}

Tensor moved(FuzzDraw& draw) {
  const Tensor x = draw.any(rank_at_least(1));
  switch (draw.variant(6)) {
    case 0:
      return x.flip({draw.dim_of(x)});
    case 1:
      return x.roll({draw.between(-3, 3)}, {draw.dim_of(x)});
    case 2:
      return x.dim() >= 2 ? x.tril(draw.between(-1, 1)) : x.flip({0});
    case 3:
      return x.dim() >= 2 ? x.triu(draw.between(-1, 1)) : x.roll({1});
    case 4:
      return x.repeat(Dims(static_cast<std::size_t>(x.dim()), 2));
    default: {
      const std::array padding{draw.between(-1, 2), draw.between(0, 2)};
      return at::constant_pad_nd(x, padding, draw.between(-1, 1));
    }
  }
}

Tensor scattered(FuzzDraw& draw) {
  const Tensor x = draw.floating(not_empty(1));
  const std::int64_t dim = draw.dim_of(x);
  Dims sizes = x.sizes().vec();
  sizes[static_cast<std::size_t>(dim < 0 ? dim + x.dim() : dim)] = 1;
  const Tensor index = draw.indices(sizes, x.size(dim));
  const Tensor source = draw.fresh(sizes).to(x.scalar_type());
  switch (draw.variant(3)) {
    case 0:
      return x.scatter(dim, index, source);
    case 1:
      return x.scatter(dim, index, draw.number());
    default:
      return x.scatter_add(dim, index, source);
  }
}

Tensor one_hot(FuzzDraw& draw) {
  return at::one_hot(draw.integer(not_empty()).remainder(3), 3);
}

// ---- layers ----

Tensor product(FuzzDraw& draw) {
  const Tensor x = draw.floating(rank_at_least(1));
  const auto fits = [&x](const Tensor& other) {
    return other.scalar_type() == x.scalar_type() && other.dim() >= 1 &&
           other.size(other.dim() > 1 ? -2 : 0) == x.size(-1) &&
           (x.dim() <= 2 || other.dim() <= 2 || x.size(0) == other.size(0));
  };
  switch (draw.variant(4)) {
    case 0:
      return x.matmul(draw.fresh({x.size(-1), 3}).to(x.scalar_type()));
    case 1:
      return x.dim() > 1 ? x.matmul(x.transpose(-1, -2)) : x.dot(x);
    case 2:
      return at::linear(
          x,
          draw.fresh({2, x.size(-1)}).to(x.scalar_type()),
          draw.fresh({2}).to(x.scalar_type()));
    default:
      return x.matmul(draw.floating(fits));
  }
}

Tensor normalized(FuzzDraw& draw) {
  // On the CPU, the gradient of batch norm is wrong if elements of its input
  // share memory.
  const Tensor x = draw.floating(not_empty(2)).contiguous();
  const auto like = [&](std::int64_t size) {
    return draw.fresh({size}).to(x.scalar_type());
  };
  switch (draw.variant(4)) {
    case 0:
      return at::layer_norm(
          x, {x.size(-1)}, like(x.size(-1)), like(x.size(-1)), 0.1);
    case 1:
      return at::rms_norm(x, {x.size(-1)}, like(x.size(-1)), 0.1);
    case 2:
      return at::batch_norm(
          x, like(x.size(1)), {}, {}, {}, true, 0.1, 0.1, false);
    default:
      return at::group_norm(x, 1, like(x.size(1)), like(x.size(1)), 0.1);
  }
}

Tensor convolved(FuzzDraw& draw) {
  const Tensor x = draw.floating([](const Tensor& tensor) {
    return tensor.dim() >= 3 && tensor.dim() <= 4 && tensor.numel() > 0 &&
           tensor.scalar_type() != at::kBFloat16;
  });
  const std::int64_t stride = draw.between(1, 2);
  if (x.dim() == 3) {
    const Tensor weight = draw.fresh({2, x.size(1), 2}).to(x.scalar_type());
    return at::conv1d(x, weight, {}, stride, 1);
  }
  const Tensor weight = draw.fresh({2, x.size(1), 2, 2}).to(x.scalar_type());
  return at::conv2d(x, weight, {}, stride, 1);
}

Tensor pooled(FuzzDraw& draw) {
  const Tensor x = draw.comparable([](const Tensor& tensor) {
    return tensor.dim() >= 3 && tensor.dim() <= 4 && tensor.numel() > 0 &&
           tensor.scalar_type() != at::kBFloat16;
  });
  if (x.dim() == 3) {
    return at::avg_pool1d(x, 2, 1, 1);
  }
  return draw.chance(50) ? at::max_pool2d(x, 2, 1, 1)
                         : at::avg_pool2d(x, 2, 2, 1);
}

Tensor loss(FuzzDraw& draw) {
  const Tensor x = draw.floating(not_empty());
  const Tensor y = draw.floating([&x](const Tensor& other) {
    return other.sizes() == x.sizes() && other.scalar_type() == x.scalar_type();
  });
  const std::int64_t reduction = draw.between(0, 2);
  switch (draw.variant(5)) {
    case 0:
      return at::mse_loss(x, y, reduction);
    case 1:
      return at::smooth_l1_loss(x, y, reduction);
    case 2:
      return at::binary_cross_entropy_with_logits(
          x, y.sigmoid().detach(), {}, {}, reduction);
    case 3:
      return at::huber_loss(x, y, reduction, 0.7);
    default:
      return x.dim() == 2 ? at::cross_entropy_loss(
                                x, draw.indices({x.size(0)}, x.size(1)))
                          : at::l1_loss(x, y.detach(), reduction);
  }
}

Tensor looked_up(FuzzDraw& draw) {
  const Tensor table = draw.floating([](const Tensor& tensor) {
    return tensor.dim() == 2 && tensor.numel() > 0;
  });
  return at::embedding(table, draw.indices({2, 2}, table.size(0)));
}

Tensor attention(FuzzDraw& draw) {
  const Tensor x = draw.floating([](const Tensor& tensor) {
    return (tensor.dim() == 3 || tensor.dim() == 4) && tensor.numel() > 0;
  });
  return at::scaled_dot_product_attention(
      x, x, x, {}, 0.0, /*is_causal=*/draw.chance(50));
}

}  // namespace

std::vector<FuzzOperator> fuzz_views() {
  const auto view = FuzzKind::view;
  return {
      {"slice", view, sliced},
      {"slice", view, sliced},
      {"select", view, selected},
      {"reshape", view, reshaped},
      {"diagonal", view, diagonal},
      // Not a view: autograd forbids to use one of several views after a write
      // to their base.
      {"chunk", FuzzKind::value, part},
      {"transpose",
       view,
       [](FuzzDraw& draw) {
         const Tensor x = draw.any(rank_at_least(2));
         const std::int64_t dim = draw.dim_of(x);
         return x.transpose(dim, draw.dim_of(x));
       }},
      {"permute",
       view,
       [](FuzzDraw& draw) {
         const Tensor x = draw.any(rank_at_least(2));
         return x.permute(shuffled_dims(draw, x.dim()));
       }},
      {"unsqueeze",
       view,
       [](FuzzDraw& draw) {
         const Tensor x = draw.any();
         return x.unsqueeze(draw.between(0, x.dim()));
       }},
      {"squeeze", view, [](FuzzDraw& draw) { return draw.any().squeeze(); }},
      {"expand", FuzzKind::window, expanded},
      {"unfold",
       FuzzKind::window,
       [](FuzzDraw& draw) {
         const Tensor x = draw.any(rank_at_least(1));
         const std::int64_t dim = draw.dim_of(x);
         return x.unfold(dim, 2, draw.between(1, 2));
       }},
      {"clone",
       FuzzKind::copy,
       [](FuzzDraw& draw) { return draw.any().clone(); }},
      {"clone",
       FuzzKind::copy,
       [](FuzzDraw& draw) { return draw.any().clone(); }},
      {"contiguous",
       FuzzKind::value,
       [](FuzzDraw& draw) { return draw.any().contiguous().add(0); }},
  };
}

std::vector<FuzzOperator> fuzz_writes() {
  const auto write = FuzzKind::write;
  return {
      {"fill_", write, filled},
      {"masked_fill_", write, masked},
      {"index_put_", write, put_at_indices},
      {"index_add_", write, added_at_indices},
      {"unary_", write, unary_written},
      {"copy_",
       write,
       [](FuzzDraw& draw) {
         return written_with(draw, [](Tensor x, const Tensor& source) {
           return x.copy_(source);
         });
       }},
      {"add_",
       write,
       [](FuzzDraw& draw) {
         return written_with(draw, [](Tensor x, const Tensor& source) {
           return x.add_(source, 2);
         });
       }},
      {"mul_",
       write,
       [](FuzzDraw& draw) {
         return written_with(draw, [](Tensor x, const Tensor& source) {
           return x.mul_(source);
         });
       }},
      {"sub_",
       write,
       [](FuzzDraw& draw) {
         return written_with(draw, [](Tensor x, const Tensor& source) {
           return x.sub_(source);
         });
       }},
      {"addcmul_",
       write,
       [](FuzzDraw& draw) {
         return written_with(draw, [](Tensor x, const Tensor& source) {
           return x.addcmul_(source, source, 0.5);
         });
       }},
      {"lerp_",
       write,
       [](FuzzDraw& draw) {
         return written_with(draw, [](Tensor x, const Tensor& source) {
           return x.lerp_(source, 0.3);
         });
       }},
  };
}

std::vector<FuzzOperator> fuzz_elementwise() {
  return {
      unary("exp", [](const Tensor& x) { return x.clamp(-3, 2).exp(); }),
      unary("expm1", [](const Tensor& x) { return x.clamp(-3, 2).expm1(); }),
      unary("log", [](const Tensor& x) { return (x.abs() + 0.5).log(); }),
      unary("log1p", [](const Tensor& x) { return x.abs().log1p(); }),
      unary("sqrt", [](const Tensor& x) { return (x.abs() + 0.1).sqrt(); }),
      unary("rsqrt", [](const Tensor& x) { return (x.abs() + 0.1).rsqrt(); }),
      unary("sin", at::sin),
      unary("cos", at::cos),
      unary("tanh", at::tanh),
      unary("sigmoid", at::sigmoid),
      unary("erf", at::erf),
      unary("abs", at::abs),
      unary("neg", at::neg),
      unary("square", at::square),
      unary(
          "reciprocal",
          [](const Tensor& x) { return (x * x + 0.3).reciprocal(); }),
      unary("relu", at::relu),
      unary("gelu", [](const Tensor& x) { return at::gelu(x); }),
      unary("gelu_tanh", [](const Tensor& x) { return at::gelu(x, "tanh"); }),
      unary("silu", at::silu),
      unary("softplus", [](const Tensor& x) { return at::softplus(x); }),
      unary("elu", [](const Tensor& x) { return at::elu(x); }),
      unary(
          "leaky_relu", [](const Tensor& x) { return at::leaky_relu(x, 0.2); }),
      unary("hardtanh", [](const Tensor& x) { return at::hardtanh(x); }),
      unary("log_sigmoid", at::log_sigmoid),
      stepped("sign", at::sign),
      stepped("floor", at::floor),
      stepped("round", at::round),
      stepped("trunc", at::trunc),
      stepped("frac", at::frac),
      stepped("remainder", [](const Tensor& x) { return x.remainder(0.75); }),
      binary("add", [](const Tensor& a, const Tensor& b) { return a + b; }),
      binary("mul", [](const Tensor& a, const Tensor& b) { return a * b; }),
      binary(
          "sub",
          [](const Tensor& a, const Tensor& b) { return at::sub(a, b, 2); }),
      binary(
          "div",
          [](const Tensor& a, const Tensor& b) { return a / (b.abs() + 0.5); }),
      binary("maximum", at::maximum),
      binary("minimum", at::minimum),
      binary_of_floats(
          "pow",
          [](const Tensor& a, const Tensor& b) {
            return at::pow(a.abs() + 0.2, b.clamp(-2, 2));
          }),
      binary_of_floats(
          "atan2",
          [](const Tensor& a, const Tensor& b) {
            return at::atan2(a, b.abs() + 0.1);
          }),
      binary_of_floats(
          "lerp",
          [](const Tensor& a, const Tensor& b) { return at::lerp(a, b, 0.3); }),
      binary_of_floats(
          "addcdiv",
          [](const Tensor& a, const Tensor& b) {
            return at::addcdiv(a, a, b.abs() + 1, 0.3);
          }),
      {"compare", FuzzKind::value, compared},
      {"where", FuzzKind::value, chosen_elements},
      {"where", FuzzKind::value, chosen_elements},
      {"clamp", FuzzKind::value, clamped},
      {"to", FuzzKind::value, cast},
      {"number", FuzzKind::value, with_number},
      {"number", FuzzKind::value, with_number},
  };
}

std::vector<FuzzOperator> fuzz_integers() {
  return {
      {"integers", FuzzKind::value, whole_numbers},
      {"logic", FuzzKind::value, logic},
      {"compare_integers", FuzzKind::value, whole_comparison},
      {"to_integer", FuzzKind::value, truncated_to_integers},
  };
}

std::vector<FuzzOperator> fuzz_reductions() {
  return {
      {"reduce", FuzzKind::value, reduced},
      {"any_or_all", FuzzKind::value, any_or_all},
      {"reduce_float", FuzzKind::value, reduced_float},
      {"reduce_float", FuzzKind::value, reduced_float},
      {"extreme", FuzzKind::value, extreme},
      {"sort", FuzzKind::value, ordered},
  };
}

std::vector<FuzzOperator> fuzz_indexing() {
  return {
      {"gather", FuzzKind::value, gathered},
      {"index_select", FuzzKind::value, selected_rows},
      {"index", FuzzKind::value, indexed},
      {"cat", FuzzKind::value, joined},
      {"cat", FuzzKind::value, joined},
      {"move", FuzzKind::value, moved},
      {"scatter", FuzzKind::value, scattered},
      {"one_hot", FuzzKind::value, one_hot},
  };
}

std::vector<FuzzOperator> fuzz_layers() {
  return {
      {"matmul", FuzzKind::value, product},
      {"matmul", FuzzKind::value, product},
      {"norm", FuzzKind::value, normalized},
      {"convolution", FuzzKind::value, convolved},
      {"pool", FuzzKind::value, pooled},
      {"loss", FuzzKind::value, loss},
      {"embedding", FuzzKind::value, looked_up},
      {"attention", FuzzKind::value, attention},
  };
}

}  // namespace accelerate::xla
