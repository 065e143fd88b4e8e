// SPDX-License-Identifier: Apache-2.0
#include "cuda/blocks/norm_function.h"

#include "cuda/blocks/ops.h"
#include "cuda/blocks/saved.h"

namespace accelerate::cuda {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class Norm : public torch::autograd::Function<Norm> {
 public:
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& x,
      const at::Tensor& weight,
      const std::optional<at::Tensor>& shift,
      double eps) {
    const auto result = norm(
        {.x = as_rows(x),
         .weight = weight.detach(),
         .shift = shift ? shift->detach() : at::Tensor(),
         .eps = eps});
    context->save_for_backward(
        {result.sum, result.mean, result.rstd, weight.detach()});
    context->saved_data["sizes"] = x.sizes().vec();
    return result.y.view(x.sizes());
  }

  static variable_list backward(AutogradContext* context, variable_list d) {
    const variable_list s = context->get_saved_variables();
    SideStream side_stream(false);
    const auto g = norm_gradients(
        as_rows(d[0]), {}, {s[0], s[1], s[2], s[3], {}, false}, side_stream);
    return {
        g.d_sum.view(context->saved_data["sizes"].toIntVector()),
        g.d_weight,
        g.d_shift,
        at::Tensor()};
  }
};

class DropoutFunction : public torch::autograd::Function<DropoutFunction> {
 public:
  static at::Tensor forward(
      AutogradContext* context, const at::Tensor& x, double rate) {
    const auto drawn = draw_dropout(rate);
    save_dropout(*context, "dropout", drawn);
    return residual_dropout(as_rows(x), {}, {}, drawn).view(x.sizes());
  }

  static variable_list backward(AutogradContext* context, variable_list d) {
    return {
        residual_dropout(
            as_rows(d[0]), {}, {}, saved_dropout(*context, "dropout"))
            .view(d[0].sizes()),
        at::Tensor()};
  }
};

}  // namespace

at::Tensor normalize(
    const at::Tensor& x,
    const at::Tensor& weight,
    const at::Tensor& shift,
    double eps) {
  return Norm::apply(x, weight, if_defined(shift), eps);
}

at::Tensor dropout(const at::Tensor& x, double rate) {
  return rate > 0.0 ? DropoutFunction::apply(x, rate) : x;
}

}  // namespace accelerate::cuda
