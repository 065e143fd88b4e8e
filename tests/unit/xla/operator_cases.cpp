// SPDX-License-Identifier: Apache-2.0
#include "unit/xla/operator_cases.h"

#include <torch/nn.h>

namespace accelerate::xla {
namespace {

namespace F = torch::nn::functional;

using Function = at::Tensor (*)(const at::Tensor&);
using Function2 = at::Tensor (*)(const at::Tensor&, const at::Tensor&);

OperatorCase unary_case(
    const char* name, Function function, double low = -1, double high = 1) {
  return {name, {some({2, 3}, low, high)}, [function](const Tensors& x) {
            return function(x[0]);
          }};
}

OperatorCase binary_case(
    const char* name, Function2 function, double low = -1, double high = 1) {
  return {
      name,
      {some({2, 3}, low, high), some({3}, low, high)},
      [function](const Tensors& x) { return function(x[0], x[1]); }};
}

OperatorCase plain(OperatorCase made) {
  made.differentiable = false;
  return made;
}

}  // namespace

at::Tensor some(at::IntArrayRef sizes, double low, double high) {
  static std::uint64_t count = 0;
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(++count);
  return at::empty(sizes, at::kDouble).uniform_(low, high, generator);
}

at::Tensor whole(at::IntArrayRef sizes, std::int64_t bound) {
  return some(sizes, 0, static_cast<double>(bound)).to(at::kLong);
}

std::vector<OperatorCase> elementwise_cases() {
  return {
      unary_case("Exp", at::exp),
      unary_case("Expm1", at::expm1),
      unary_case("Log", at::log, 0.1, 2),
      unary_case("Log1p", at::log1p),
      unary_case("Log2", at::log2, 0.1, 2),
      unary_case("Log10", at::log10, 0.1, 2),
      unary_case("Sqrt", at::sqrt, 0.1, 2),
      unary_case("Rsqrt", at::rsqrt, 0.1, 2),
      unary_case("Sin", at::sin),
      unary_case("Cos", at::cos),
      unary_case("Tan", at::tan),
      unary_case("Tanh", at::tanh),
      unary_case("Sigmoid", at::sigmoid),
      unary_case("Erf", at::erf),
      unary_case("Erfc", at::erfc),
      unary_case("Erfinv", at::erfinv, -0.9, 0.9),
      unary_case("Abs", at::abs),
      unary_case("Neg", at::neg),
      unary_case("Sign", at::sign),
      unary_case("Ceil", at::ceil, -3, 3),
      unary_case("Floor", at::floor, -3, 3),
      unary_case("Round", at::round, -3, 3),
      unary_case("Trunc", at::trunc, -3, 3),
      unary_case("Frac", at::frac, -3, 3),
      unary_case("Reciprocal", at::reciprocal, 0.5, 2),
      plain(unary_case("Isnan", at::isnan)),
      plain(unary_case("Isinf", at::isinf)),
      plain(unary_case("LogicalNot", at::logical_not)),
      binary_case(
          "Add",
          [](const at::Tensor& a, const at::Tensor& b) { return a + b; }),
      binary_case(
          "AddWithAlpha",
          [](const at::Tensor& a, const at::Tensor& b) {
            return a.add(b, 0.3);
          }),
      binary_case(
          "Sub",
          [](const at::Tensor& a, const at::Tensor& b) { return a - b; }),
      binary_case(
          "Rsub",
          [](const at::Tensor& a, const at::Tensor& b) {
            return at::rsub(a, b, 0.3);
          }),
      binary_case(
          "Mul",
          [](const at::Tensor& a, const at::Tensor& b) { return a * b; }),
      binary_case(
          "Div",
          [](const at::Tensor& a, const at::Tensor& b) { return a / b; },
          0.5,
          2),
      binary_case("Atan2", at::atan2, 0.2, 2),
      binary_case("Maximum", at::maximum),
      binary_case("Minimum", at::minimum),
      binary_case(
          "Pow",
          [](const at::Tensor& a, const at::Tensor& b) {
            return at::pow(a, b);
          },
          0.5,
          2),
      binary_case(
          "Remainder",
          [](const at::Tensor& a, const at::Tensor& b) {
            return at::remainder(a * 5, b);
          },
          0.5,
          1),
      binary_case(
          "Lerp",
          [](const at::Tensor& a, const at::Tensor& b) {
            return at::lerp(a, b, 0.7);
          }),
      binary_case(
          "Addcmul",
          [](const at::Tensor& a, const at::Tensor& b) {
            return at::addcmul(a, a, b, 0.7);
          }),
      binary_case(
          "Addcdiv",
          [](const at::Tensor& a, const at::Tensor& b) {
            return at::addcdiv(a, a, b, 0.7);
          },
          0.5,
          2),
      binary_case(
          "Where",
          [](const at::Tensor& a, const at::Tensor& b) {
            return at::where(a > b, a, b * 2);
          }),
      plain(binary_case(
          "Comparisons",
          [](const at::Tensor& a, const at::Tensor& b) {
            return at::stack({a<b, a <= b, a> b, a >= b, a.eq(b), a.ne(b)});
          })),
      plain(binary_case(
          "FloorDivide",
          [](const at::Tensor& a, const at::Tensor& b) {
            return at::floor_divide(a * 10, b);
          })),
      {"PowWithNumbers",
       {some({4}, 0.5, 2)},
       [](const Tensors& x) {
         return x[0].pow(2) + x[0].pow(3) + x[0].pow(0.5) + x[0].pow(-1.7) +
                at::pow(2, x[0]);
       }},
      {"Clamp",
       {some({10})},
       [](const Tensors& x) {
         return x[0].clamp(-0.5, 0.5) + x[0].clamp_min(-0.2) +
                x[0].clamp_max(0.2);
       }},
      {"ClampToOneTensor",
       {some({10}), some({10})},
       [](const Tensors& x) {
         return at::clamp(x[0], x[1].detach(), at::Tensor()) +
                at::clamp(x[0], at::Tensor(), x[1].detach());
       }},
      {"MaskedFill",
       {some({2, 3}), whole({2, 3}, 2)},
       [](const Tensors& x) {
         return x[0].masked_fill(x[1].to(at::kBool), 7.0);
       }},
      {"IntegerArithmetic",
       {whole({6}, 100), whole({6}, 9)},
       [](const Tensors& x) {
         const at::Tensor b = x[1] + 1;
         return at::stack(
             {x[0] * b,
              x[0] - b,
              x[0].remainder(b),
              x[0].floor_divide(b),
              (x[0] - 50).remainder(b),
              (x[0] - 50).floor_divide(b)});
       },
       false},
      {"FillBooleansWithFractions",
       {whole({6}, 2)},
       [](const Tensors& x) {
         const at::Tensor mask = x[0].to(at::kBool);
         return at::stack(
             {mask.masked_fill(mask, -0.5), mask.clone().fill_(0.25)});
       },
       false},
      {"NegativeIntegers",
       {whole({6}, 100)},
       [](const Tensors& x) {
         const at::Tensor divisor = at::full({6}, -3, x[0].options());
         return at::stack(
             {x[0].remainder(divisor),
              x[0].floor_divide(divisor),
              divisor.lt(0).to(at::kLong)});
       },
       false},
      {"IntegerDivisionIsFloat",
       {whole({6}, 100)},
       [](const Tensors& x) { return x[0] / 7; },
       false},
      {"Booleans",
       {whole({6}, 2), whole({6}, 2)},
       [](const Tensors& x) {
         const at::Tensor a = x[0].to(at::kBool);
         const at::Tensor b = x[1].to(at::kBool);
         return at::stack(
             {a.logical_and(b),
              a.logical_or(b),
              a.logical_xor(b),
              a * b,
              a + b,
              a.bitwise_not(),
              a & b,
              a | b});
       },
       false},
      {"Relu", {some({10})}, [](const Tensors& x) { return at::relu(x[0]); }},
      {"Gelu",
       {some({10}, -3, 3)},
       [](const Tensors& x) { return at::gelu(x[0]); }},
      {"GeluTanh",
       {some({10}, -3, 3)},
       [](const Tensors& x) { return at::gelu(x[0], "tanh"); }},
      {"Silu",
       {some({10}, -3, 3)},
       [](const Tensors& x) { return at::silu(x[0]); }},
      {"Softplus",
       {some({10}, -3, 3)},
       [](const Tensors& x) { return at::softplus(x[0]); }},
      {"Mish",
       {some({10}, -3, 3)},
       [](const Tensors& x) { return at::mish(x[0]); }},
      {"Elu",
       {some({10}, -3, 3)},
       [](const Tensors& x) { return at::elu(x[0], 0.7); }},
      {"LeakyRelu",
       {some({10}, -3, 3)},
       [](const Tensors& x) { return at::leaky_relu(x[0], 0.1); }},
      {"Hardtanh",
       {some({10}, -3, 3)},
       [](const Tensors& x) { return at::hardtanh(x[0]); }},
      {"Hardsigmoid",
       {some({10}, -5, 5)},
       [](const Tensors& x) { return at::hardsigmoid(x[0]); }},
      {"Hardswish",
       {some({10}, -5, 5)},
       [](const Tensors& x) { return at::hardswish(x[0]); }},
      {"LogSigmoid",
       {some({10}, -5, 5)},
       [](const Tensors& x) { return at::log_sigmoid(x[0]); }},
      {"Glu",
       {some({4, 6})},
       [](const Tensors& x) { return at::glu(x[0], 1); }},
      {"Prelu",
       {some({4, 3}), some({3})},
       [](const Tensors& x) { return at::prelu(x[0], x[1]); }},
  };
}

std::vector<OperatorCase> reduction_cases() {
  return {
      {"Sum", {some({2, 3, 4})}, [](const Tensors& x) { return x[0].sum(); }},
      {"SumOverDims",
       {some({2, 3, 4})},
       [](const Tensors& x) { return x[0].sum(at::IntArrayRef({0, 2})); }},
      {"SumKeepsDims",
       {some({2, 3, 4})},
       [](const Tensors& x) { return x[0].sum(at::IntArrayRef({-1}), true); }},
      {"SumOfBooleans",
       {whole({5}, 2)},
       [](const Tensors& x) { return x[0].to(at::kBool).sum(); },
       false},
      {"Mean", {some({2, 3})}, [](const Tensors& x) { return x[0].mean(); }},
      {"MeanOverDims",
       {some({2, 3, 4})},
       [](const Tensors& x) { return x[0].mean({1}); }},
      {"Prod",
       {some({2, 3})},
       [](const Tensors& x) { return x[0].prod(); },
       false},
      {"Var",
       {some({2, 5})},
       [](const Tensors& x) { return x[0].var(at::IntArrayRef({1}), true); }},
      {"Std",
       {some({2, 5})},
       [](const Tensors& x) { return x[0].std(at::IntArrayRef({1}), false); }},
      {"VarMean",
       {some({2, 5})},
       [](const Tensors& x) {
         const auto [variance, average] =
             at::var_mean(x[0], at::IntArrayRef({1}), true);
         return variance + average;
       }},
      {"Max", {some({2, 5})}, [](const Tensors& x) { return x[0].max(); }},
      {"Min", {some({2, 5})}, [](const Tensors& x) { return x[0].min(); }},
      {"MaxAlongDim",
       {some({2, 5})},
       [](const Tensors& x) { return std::get<0>(x[0].max(1)); }},
      {"MaxIndices",
       {some({2, 5})},
       [](const Tensors& x) { return std::get<1>(x[0].max(1, true)); },
       false},
      {"Amax", {some({2, 5})}, [](const Tensors& x) { return x[0].amax({0}); }},
      {"Amin",
       {some({2, 5})},
       [](const Tensors& x) { return x[0].amin({0, 1}); }},
      {"Argmax",
       {some({2, 5})},
       [](const Tensors& x) { return at::argmax(x[0], 1); },
       false},
      {"ArgmaxOfAll",
       {some({2, 5})},
       [](const Tensors& x) { return at::argmax(x[0]); },
       false},
      {"Argmin",
       {some({2, 5})},
       [](const Tensors& x) { return at::argmin(x[0], 0, true); },
       false},
      {"AllAndAny",
       {whole({3, 4}, 2)},
       [](const Tensors& x) {
         return at::cat(
             {x[0].all().view({1}),
              x[0].any().view({1}),
              x[0].all(1),
              x[0].any(0)});
       },
       false},
      {"Norm", {some({3, 4})}, [](const Tensors& x) { return x[0].norm(); }},
      {"VectorNorms",
       {some({3, 4})},
       [](const Tensors& x) {
         return at::linalg_vector_norm(x[0], 2) +
                at::linalg_vector_norm(x[0], 1) +
                at::linalg_vector_norm(x[0], INFINITY) +
                at::linalg_vector_norm(x[0], 3);
       }},
      {"Cumsum",
       {some({3, 4})},
       [](const Tensors& x) { return x[0].cumsum(1); }},
      {"Sort",
       {some({3, 4})},
       [](const Tensors& x) { return std::get<0>(x[0].sort(1, true)); }},
      {"SortIndices",
       {some({3, 4})},
       [](const Tensors& x) { return std::get<1>(x[0].sort(0)); },
       false},
      {"Topk",
       {some({3, 6})},
       [](const Tensors& x) { return std::get<0>(x[0].topk(2)); }},
      {"Softmax",
       {some({2, 5})},
       [](const Tensors& x) { return at::softmax(x[0], -1).pow(2); }},
      {"LogSoftmax",
       {some({2, 5, 3})},
       [](const Tensors& x) { return at::log_softmax(x[0], 1).pow(2); }},
      {"Logsumexp",
       {some({2, 5})},
       [](const Tensors& x) { return at::logsumexp(x[0], {1}); }},
  };
}

std::vector<OperatorCase> layer_cases() {
  return {
      {"Mm",
       {some({2, 3}), some({3, 4})},
       [](const Tensors& x) { return x[0].mm(x[1]); }},
      {"Bmm",
       {some({2, 3, 4}), some({2, 4, 5})},
       [](const Tensors& x) { return x[0].bmm(x[1]); }},
      {"Matmul",
       {some({2, 3, 4}), some({4, 5})},
       [](const Tensors& x) { return x[0].matmul(x[1]); }},
      {"MatmulOfVectors",
       {some({4}), some({4})},
       [](const Tensors& x) { return x[0].matmul(x[1]); }},
      {"Addmm",
       {some({5}), some({2, 3}), some({3, 5})},
       [](const Tensors& x) { return at::addmm(x[0], x[1], x[2], 0.5, 0.25); }},
      {"Baddbmm",
       {some({2, 3, 5}), some({2, 3, 4}), some({2, 4, 5})},
       [](const Tensors& x) {
         return at::baddbmm(x[0], x[1], x[2], 0.5, 0.25);
       }},
      {"Linear",
       {some({2, 4, 3}), some({5, 3}), some({5})},
       [](const Tensors& x) { return at::linear(x[0], x[1], x[2]); }},
      {"Einsum",
       {some({2, 3, 4}), some({2, 5, 4})},
       [](const Tensors& x) {
         return at::einsum("bij,bkj->bik", {x[0], x[1]});
       }},
      {"LayerNorm",
       {some({2, 3, 4}), some({4}), some({4})},
       [](const Tensors& x) {
         return at::layer_norm(x[0], {4}, x[1], x[2]).pow(2);
       }},
      {"RmsNorm",
       {some({2, 3, 4}), some({4})},
       [](const Tensors& x) {
         return at::rms_norm(x[0], {4}, x[1], 1e-6).pow(2);
       }},
      {"GroupNorm",
       {some({2, 6, 3}), some({6}), some({6})},
       [](const Tensors& x) {
         return at::group_norm(x[0], 3, x[1], x[2]).pow(2);
       }},
      {"BatchNorm",
       {some({4, 3, 2}),
        some({3}),
        some({3}),
        some({3}).detach(),
        some({3}, 0.5, 1).detach()},
       [](const Tensors& x) {
         // The running statistics are written and read again.
         const at::Tensor mean = x[3].detach().clone();
         const at::Tensor variance = x[4].detach().clone();
         const at::Tensor y = at::batch_norm(
             x[0], x[1], x[2], mean, variance, true, 0.1, 1e-5, false);
         return y.pow(2).sum() + mean.sum() + variance.sum();
       }},
      {"BatchNormEval",
       {some({4, 3, 2}), some({3}), some({3})},
       [](const Tensors& x) {
         const at::Tensor ones = at::ones({3}, x[0].options());
         return at::batch_norm(
                    x[0], x[1], x[2], ones, ones * 2, false, 0.1, 1e-5, false)
             .pow(2);
       }},
      {"Conv1d",
       {some({2, 3, 8}), some({4, 3, 3}), some({4})},
       [](const Tensors& x) { return at::conv1d(x[0], x[1], x[2], 2, 1, 1); }},
      {"Conv2d",
       {some({2, 3, 6, 7}), some({4, 3, 3, 2}), some({4})},
       [](const Tensors& x) {
         return at::conv2d(x[0], x[1], x[2], {2, 1}, {1, 0}, {1, 2});
       }},
      {"Conv2dWithGroups",
       {some({2, 4, 5, 5}), some({6, 2, 3, 3})},
       [](const Tensors& x) { return at::conv2d(x[0], x[1], {}, 1, 1, 1, 2); }},
      {"ConvTranspose2d",
       {some({2, 4, 3, 3}), some({4, 3, 3, 3}), some({3})},
       [](const Tensors& x) {
         return at::conv_transpose2d(x[0], x[1], x[2], 2, 1, 1);
       }},
      {"ConvTranspose2dWithGroups",
       {some({2, 4, 3, 3}), some({4, 3, 3, 3})},
       [](const Tensors& x) {
         return at::conv_transpose2d(x[0], x[1], {}, 2, 1, 1, 2);
       }},
      {"MaxPool2d",
       {some({2, 3, 7, 6})},
       [](const Tensors& x) {
         return at::max_pool2d(x[0], {3, 2}, {2, 2}, {1, 0});
       }},
      {"MaxPool2dDilatedCeil",
       {some({2, 3, 7, 6})},
       [](const Tensors& x) {
         return at::max_pool2d(x[0], 2, 3, 1, 2, /*ceil_mode=*/true);
       }},
      {"MaxPoolIndices",
       {some({2, 3, 7, 6})},
       [](const Tensors& x) {
         return std::get<1>(at::max_pool2d_with_indices(x[0], 3, 2, 1));
       },
       false},
      {"MaxPoolIndicesOfMinusInfinity",
       {at::full({1, 2, 4, 5}, -INFINITY, at::kDouble)},
       [](const Tensors& x) {
         return std::get<1>(
             at::max_pool2d_with_indices(x[0], {2, 3}, {1, 2}, {1, 1}, {2, 1}));
       },
       false},
      {"MaxPool1d",
       {some({2, 3, 8})},
       [](const Tensors& x) { return at::max_pool1d(x[0], 2); }},
      {"AvgPool2d",
       {some({2, 3, 7, 6})},
       [](const Tensors& x) { return at::avg_pool2d(x[0], 3, 2, 1); }},
      {"AvgPool2dWithoutPadding",
       {some({2, 3, 7, 6})},
       [](const Tensors& x) {
         return at::avg_pool2d(x[0], 3, 2, 1, true, false);
       }},
      {"AdaptiveAvgPool2d",
       {some({2, 3, 7, 6})},
       [](const Tensors& x) { return at::adaptive_avg_pool2d(x[0], {3, 4}); }},
      {"AdaptiveAvgPoolToOne",
       {some({2, 3, 7, 6})},
       [](const Tensors& x) { return at::adaptive_avg_pool2d(x[0], {1, 1}); }},
      {"Lstm",
       {some({5, 2, 3}),
        some({1, 2, 4}),
        some({1, 2, 4}),
        some({16, 3}),
        some({16, 4}),
        some({16}),
        some({16})},
       [](const Tensors& x) {
         return std::get<0>(at::lstm(
             x[0],
             {x[1], x[2]},
             {x[3], x[4], x[5], x[6]},
             true,
             1,
             0.0,
             true,
             false,
             false));
       }},
      {"Gru",
       {some({5, 2, 3}),
        some({1, 2, 4}),
        some({12, 3}),
        some({12, 4}),
        some({12}),
        some({12})},
       [](const Tensors& x) {
         return std::get<0>(at::gru(
             x[0],
             x[1],
             {x[2], x[3], x[4], x[5]},
             true,
             1,
             0.0,
             true,
             false,
             false));
       }},
      {"FusedSgd",
       {some({4}), some({4}), some({4})},
       [](const Tensors& x) {
         for (const bool is_first : {true, false}) {
           at::_fused_sgd_(
               {x[0]},
               {x[1]},
               {x[2]},
               0.1,
               0.9,
               0.05,
               0.2,
               true,
               false,
               is_first);
         }
         return at::stack({x[0], x[2]});
       },
       false},
      {"FusedSgdSkipsAStep",
       {some({4}), some({4}), some({4})},
       [](const Tensors& x) {
         const at::Tensor found =
             at::ones({1}, x[0].options().dtype(at::kFloat));
         const at::Tensor scale = at::ones_like(found);
         at::_fused_sgd_(
             {x[0]},
             {x[1]},
             {x[2]},
             0.1,
             0.9,
             0.05,
             0.2,
             true,
             false,
             false,
             scale,
             found);
         return at::stack({x[0], x[2]});
       },
       false},
      {"FusedAdamW",
       {some({4}), some({4}), some({4}), some({4}, 0, 1)},
       [](const Tensors& x) {
         const at::Tensor step = at::full({}, 3.0, x[0].options());
         at::_fused_adamw_(
             {x[0]},
             {x[1]},
             {x[2]},
             {x[3]},
             {},
             {step.to(at::kFloat)},
             0.1,
             0.9,
             0.99,
             0.1,
             1e-8,
             false,
             false);
         return at::stack({x[0], x[2], x[3]});
       },
       false},
      {"Attention",
       {some({2, 2, 4, 3}), some({2, 2, 4, 3}), some({2, 2, 4, 3})},
       [](const Tensors& x) {
         return at::scaled_dot_product_attention(x[0], x[1], x[2]);
       }},
      {"CausalAttention",
       {some({2, 2, 4, 3}), some({2, 2, 4, 3}), some({2, 2, 4, 3})},
       [](const Tensors& x) {
         return at::scaled_dot_product_attention(
             x[0], x[1], x[2], {}, 0.0, /*is_causal=*/true);
       }},
      {"CrossEntropy",
       {some({4, 5}), whole({4}, 5)},
       [](const Tensors& x) { return at::cross_entropy_loss(x[0], x[1]); }},
      {"CrossEntropyIgnoresAClass",
       {some({4, 5}), whole({4}, 5), some({5}, 0.5, 1)},
       [](const Tensors& x) {
         return at::cross_entropy_loss(x[0], x[1], x[2].detach(), 1, 2);
       }},
      {"CrossEntropyOfImages",
       {some({2, 5, 3, 3}), whole({2, 3, 3}, 5)},
       [](const Tensors& x) { return at::cross_entropy_loss(x[0], x[1]); }},
      {"CrossEntropySmoothed",
       {some({4, 5}), whole({4}, 5)},
       [](const Tensors& x) {
         return at::cross_entropy_loss(x[0], x[1], {}, 1, -100, 0.1);
       }},
      {"NllNone",
       {some({4, 5}), whole({4}, 5)},
       [](const Tensors& x) { return at::nll_loss(x[0], x[1], {}, 0); }},
      {"Mse",
       {some({4, 5}), some({4, 5})},
       [](const Tensors& x) { return at::mse_loss(x[0], x[1]); }},
      {"SmoothL1",
       {some({4, 5}), some({4, 5})},
       [](const Tensors& x) { return at::smooth_l1_loss(x[0], x[1], 2, 0.5); }},
      {"Huber",
       {some({4, 5}), some({4, 5})},
       [](const Tensors& x) { return at::huber_loss(x[0], x[1], 1, 0.5); }},
      {"L1",
       {some({4, 5}), some({4, 5})},
       [](const Tensors& x) { return at::l1_loss(x[0], x[1]); }},
      {"Bce",
       {some({4, 5}, 0.1, 0.9), some({4, 5}, 0, 1)},
       [](const Tensors& x) {
         return at::binary_cross_entropy(x[0], x[1].detach());
       }},
      {"BceWithLogits",
       {some({4, 5}), some({4, 5}, 0, 1)},
       [](const Tensors& x) {
         return at::binary_cross_entropy_with_logits(x[0], x[1].detach());
       }},
      {"KlDiv",
       {some({4, 5}), some({4, 5}, 0.1, 0.9)},
       [](const Tensors& x) { return at::kl_div(x[0], x[1].detach()); }},
  };
}

std::vector<OperatorCase> indexing_cases() {
  return {
      {"Cat",
       {some({2, 3}), some({2, 1})},
       [](const Tensors& x) { return at::cat({x[0], x[1]}, 1); }},
      {"Stack",
       {some({2, 3}), some({2, 3})},
       [](const Tensors& x) { return at::stack({x[0], x[1]}, 1); }},
      {"Triangles",
       {some({3, 4})},
       [](const Tensors& x) { return x[0].triu(1) + x[0].tril(-1); }},
      {"Flip", {some({2, 3})}, [](const Tensors& x) { return x[0].flip({1}); }},
      {"Roll",
       {some({2, 3})},
       [](const Tensors& x) { return x[0].roll({1, -1}, {0, 1}); }},
      {"Pad",
       {some({2, 3})},
       [](const Tensors& x) {
         return at::constant_pad_nd(x[0], {1, 2, 0, 1}, 0.5);
       }},
      {"Repeat",
       {some({2, 3})},
       [](const Tensors& x) { return x[0].repeat({2, 1, 2}); }},
      {"Split",
       {some({5, 2})},
       [](const Tensors& x) {
         const auto parts = x[0].split({2, 3});
         return parts[0].sum() + parts[1].pow(2).sum();
       }},
      {"Embedding",
       {some({7, 3}), whole({2, 4}, 7)},
       [](const Tensors& x) { return at::embedding(x[0], x[1]); }},
      {"EmbeddingWithPadding",
       {some({7, 3}), whole({2, 4}, 7)},
       [](const Tensors& x) { return at::embedding(x[0], x[1], 3); }},
      {"IndexSelect",
       {some({5, 3}), whole({4}, 5)},
       [](const Tensors& x) { return x[0].index_select(0, x[1]); }},
      {"Gather",
       {some({4, 5}), whole({4, 2}, 5)},
       [](const Tensors& x) { return x[0].gather(1, x[1]); }},
      {"ScatterAdd",
       {some({4, 5}), whole({4, 2}, 5), some({4, 2})},
       [](const Tensors& x) { return x[0].scatter_add(1, x[1], x[2]); }},
      {"ScatterNumber",
       {some({4, 5}), whole({4, 1}, 5)},
       [](const Tensors& x) { return x[0].scatter(1, x[1], 3.0); }},
      {"Index",
       {some({4, 5, 3}), whole({2}, 4), whole({2}, 5)},
       [](const Tensors& x) { return x[0].index({x[1], x[2]}); }},
      {"IndexOfLastDim",
       {some({4, 5}), whole({2, 2}, 5)},
       [](const Tensors& x) {
         return x[0].index({at::indexing::Slice(), x[1]});
       }},
      {"IndexPut",
       {some({4, 5}), whole({2}, 4), some({2, 5})},
       [](const Tensors& x) {
         return x[0].index_put({x[1]}, x[2], /*accumulate=*/true);
       }},
      {"IndexAdd",
       {some({4, 5}), whole({3}, 5), some({4, 3})},
       [](const Tensors& x) { return x[0].index_add(1, x[1], x[2], 0.5); }},
      {"Unfold",
       {some({3, 7, 2})},
       [](const Tensors& x) { return x[0].unfold(1, 3, 2).pow(2); }},
      {"UnfoldOfLastDim",
       {some({3, 5})},
       [](const Tensors& x) { return x[0].unfold(-1, 2, 1).pow(2); }},
      {"SelectAndSlice",
       {some({4, 6})},
       [](const Tensors& x) {
         return x[0].select(0, 1).sum() + x[0].slice(1, 1, 6, 2).pow(2).sum();
       }},
      {"SliceOfTooManyElements",
       {some({4, 6})},
       [](const Tensors& x) { return x[0].slice(1, -9, 99, 2).pow(2); }},
      {"Arange",
       {some({1})},
       [](const Tensors& x) {
         return at::arange(2, 11, 3, x[0].options()) + x[0];
       }},
      {"OneHot",
       {whole({4}, 5)},
       [](const Tensors& x) { return at::one_hot(x[0], 5); },
       false},
  };
}

}  // namespace accelerate::xla
