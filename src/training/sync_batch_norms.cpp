// SPDX-License-Identifier: Apache-2.0
#include "training/sync_batch_norms.h"

#include <optional>
#include <utility>

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/instancenorm.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "device/interception.h"

namespace accelerate {
namespace {

namespace nn = torch::nn;
using WeakTensor =
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

at::Tensor lock(const WeakTensor& weak) {
  auto impl = weak.lock();
  return impl ? at::Tensor::wrap_tensor_impl(std::move(impl)) : at::Tensor();
}

double value_of(const at::Tensor& counter) {
  return counter.defined() ? counter.item<double>() : 0;
}

template <typename... Modules>
bool is_one_of(const nn::Module& module) {
  return ((dynamic_cast<const Modules*>(&module) != nullptr) || ...);
}

at::Tensor find_in(
    const torch::OrderedDict<std::string, at::Tensor>& tensors,
    const char* name) {
  const at::Tensor* found = tensors.find(name);
  return found != nullptr ? *found : at::Tensor();
}

// Whether the module is a batch norm of LibTorch, or a user's module with the
// same running statistics.
bool is_batch_norm(const nn::Module& module) {
  if (is_one_of<nn::BatchNorm1dImpl, nn::BatchNorm2dImpl, nn::BatchNorm3dImpl>(
          module)) {
    return true;
  }
  const auto buffers = module.named_buffers(/*recurse=*/false);
  return buffers.contains("running_mean") && buffers.contains("running_var") &&
         !is_one_of<
             nn::InstanceNorm1dImpl,
             nn::InstanceNorm2dImpl,
             nn::InstanceNorm3dImpl>(module);
}

// A module on the stack has no `shared_ptr` owner, but it outlives its forward
// pass.
std::function<bool()> training_mode_of(nn::Module& module) {
  const auto weak = module.weak_from_this();
  if (weak.expired()) {
    return [&module] { return module.is_training(); };
  }
  return [weak] {
    const auto live = weak.lock();
    return live && live->is_training();
  };
}

SyncBatchNorms::BatchNorm batch_norm_of(
    const std::string& name, nn::Module& module) {
  const auto parameters = module.named_parameters(/*recurse=*/false);
  const auto buffers = module.named_buffers(/*recurse=*/false);
  return {
      name.empty() ? module.name() : name,
      find_in(parameters, "weight"),
      find_in(buffers, "running_mean"),
      find_in(buffers, "num_batches_tracked"),
      training_mode_of(module)};
}

bool is_synchronized(const at::Tensor& tensor) {
  return dynamic_cast<const SyncBatchNorm*>(interceptor_of(tensor)) != nullptr;
}

}  // namespace

void SyncBatchNorms::convert(nn::Module& model) {
  model.apply([this](const std::string& name, nn::Module& module) {
    if (is_batch_norm(module)) {
      convert(batch_norm_of(name, module));
    }
  });
}

// Marks the running mean if there is one, because fewer operators use it than
// the weight.
void SyncBatchNorms::convert(const BatchNorm& batch_norm) {
  const at::Tensor& marked = batch_norm.running_mean.defined()
                                 ? batch_norm.running_mean
                                 : batch_norm.weight;
  if (!marked.defined()) {
    throw ArgumentError(
        str_cat(
            "`convert_sync_batchnorm` cannot synchronize `",
            batch_norm.name,
            "`: it has neither a weight nor running statistics"),
        "create it with `affine` or `track_running_stats`");
  }
  if (is_synchronized(marked)) {
    return;
  }
  const auto interceptor =
      std::make_shared<SyncBatchNorm>(SyncBatchNorm::Options{
          batch_norm.name,
          strategy_.operator_collectives(),
          batch_norm.is_training});
  mark(marked, interceptor);
  converted_.push_back(
      {interceptor,
       WeakTensor(marked.getIntrusivePtr()),
       WeakTensor(batch_norm.weight.getIntrusivePtr()),
       WeakTensor(batch_norm.num_batches_tracked.getIntrusivePtr()),
       value_of(batch_norm.num_batches_tracked)});
}

bool SyncBatchNorms::communicate() {
  std::erase_if(converted_, [](const Converted& converted) {
    return converted.marked.expired();
  });
  return !converted_.empty() && strategy_.operator_collectives() != nullptr;
}

// A weight that is not trained has no gradient.
bool SyncBatchNorms::Converted::was_used() const {
  const at::Tensor trained = lock(weight);
  return trained.defined() && trained.requires_grad()
             ? trained.grad().defined()
             : value_of(lock(num_batches_tracked)) > passes_before;
}

void SyncBatchNorms::check_reached() {
  for (const Converted& converted : converted_) {
    if (!converted.mark->was_reached() && !converted.marked.expired() &&
        converted.was_used()) {
      throw StateError(
          str_cat(
              "`convert_sync_batchnorm` had no effect on `",
              converted.mark->name(),
              "`: the module was used, but it did not call `batch_norm` with "
              "its own tensors, so each process used its own statistics"),
          "call `convert_sync_batchnorm` after the last operation that "
          "replaces this module's tensors, or convert only the other modules");
    }
  }
}

}  // namespace accelerate
