// SPDX-License-Identifier: Apache-2.0
#include "accelerate/local_sgd.h"

#include <exception>

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include "accelerate/error.h"
#include "base/message.h"
#include "base/str_cat.h"

namespace accelerate {

LocalSGD::LocalSGD(
    Accelerator& accelerator,
    torch::nn::Module& model,
    const LocalSGDOptions& options)
    : accelerator_(accelerator),
      model_(model),
      options_(options),
      exceptions_(std::uncaught_exceptions()) {
  if (options.local_sgd_steps < 1) {
    throw ArgumentError(
        str_cat("`local_sgd_steps` is ", options.local_sgd_steps),
        "pass 1 or more");
  }
  if (options.enabled && accelerator.use_distributed()) {
    local_.emplace(accelerator.train_locally());
  }
}

LocalSGD::~LocalSGD() {
  if (std::uncaught_exceptions() == exceptions_) {
    print_errors_of([this] { finish(); });
  }
}

void LocalSGD::step() {
  ++steps_;
  if (local_ && steps_ % options_.local_sgd_steps == 0) {
    average();
  }
}

void LocalSGD::finish() {
  if (local_) {
    average();
    local_.reset();
  }
}

void LocalSGD::average() const {
  const at::NoGradGuard guard;
  const auto parameters = model_.parameters();
  const auto means = accelerator_.group().reduce(parameters, Reduction::mean);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].copy_(means[i]);
  }
}

}  // namespace accelerate
