// SPDX-License-Identifier: Apache-2.0
#include "training/prepared_objects.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include "accelerate/data_loader_base.h"
#include "accelerate/logging.h"
#include "accelerate/lr_scheduler.h"
#include "accelerate/partial_state.h"
#include "base/str_cat.h"
#include "optim/scheduler_context.h"
#include "parallel/model_sync.h"
#include "training/module_tensors.h"

namespace accelerate {
namespace {

// Stores the gradient sums of unfinished gradient accumulation by parameter, so
// that they can be moved to a new path.
class SavedSums {
 public:
  explicit SavedSums(const GradientPath* path) {
    if (path != nullptr) {
      const auto sums = path->sums();
      for (std::size_t i = 0; i < sums.size(); ++i) {
        by_parameter_[path->parameters().tensors[i].unsafeGetTensorImpl()] =
            sums[i];
      }
    }
  }

  void move_to(GradientPath* path) const {
    if (path == nullptr || by_parameter_.empty()) {
      return;
    }
    std::vector<at::Tensor> sums;
    for (const at::Tensor& parameter : path->parameters().tensors) {
      const auto found = by_parameter_.find(parameter.unsafeGetTensorImpl());
      sums.push_back(
          found != by_parameter_.end() ? found->second : at::Tensor());
    }
    path->set_sums(sums);
  }

 private:
  std::map<const c10::TensorImpl*, at::Tensor> by_parameter_;
};

// Returns an empty optional for a module on the stack or inside another object.
std::optional<std::weak_ptr<torch::nn::Module>> holder_of(
    torch::nn::Module& module) {
  auto holder = module.weak_from_this();
  return holder.expired() ? std::nullopt : std::optional(std::move(holder));
}

bool has_changed(const PreparedModel& model, const NamedTensors& now) {
  if (now.size() != model.parameters.size()) {
    return true;
  }
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (now.tensors[i].requires_grad() != model.requires_grad[i] ||
        !now.tensors[i].is_same(model.parameters.tensors[i])) {
      return true;
    }
  }
  return false;
}

}  // namespace

PreparedModel::PreparedModel(torch::nn::Module& module_)
    : module(&module_),
      holder(holder_of(module_)),
      parameters(parameters_of(module_)),
      buffers(buffers_of(module_)) {
}

NamedTensors PreparedModel::current_parameters() const {
  const auto* const live = live_module();
  return live != nullptr ? parameters_of(*live) : parameters;
}

NamedTensors PreparedModel::current_buffers() const {
  const auto* const live = live_module();
  return live != nullptr ? buffers_of(*live) : buffers;
}

void remove_repeated_parameters(torch::optim::Optimizer& optimizer) {
  std::set<const void*> seen;
  std::size_t repeated = 0;
  for (auto& group : optimizer.param_groups()) {
    repeated += std::erase_if(group.params(), [&](const at::Tensor& parameter) {
      return !seen.insert(parameter.unsafeGetTensorImpl()).second;
    });
  }
  if (repeated > 0 && PartialState::is_initialized()) {
    get_logger("accelerate")
        .warning(str_cat(
            "the optimizer listed ",
            repeated,
            repeated == 1
                ? " shared parameter more than once; it is now updated only "
                  "once"
                : " shared parameters more than once; each is now updated only "
                  "once"));
  }
}

PreparedObjects::~PreparedObjects() = default;

void PreparedObjects::add_model(PreparedModel model) {
  strategy_.replicate(model.parameters, model.buffers);
  std::erase_if(models_, [](const PreparedModel& known) {
    return known.module != nullptr && known.live_module() == nullptr;
  });
  const auto same = std::find_if(
      models_.begin(), models_.end(), [&](const PreparedModel& known) {
        return model.module != nullptr && known.module == model.module;
      });
  if (same != models_.end()) {
    replace_path(model, std::move(same->path));
    *same = std::move(model);
  } else {
    build_path(model);
    models_.push_back(std::move(model));
  }
}

// Without this function, a parameter that was added or unfrozen after `prepare`
// would not be synchronized.
void PreparedObjects::refresh_models() {
  for (PreparedModel& model : models_) {
    if (model.evaluation_mode) {
      continue;
    }
    NamedTensors now = model.current_parameters();
    if (has_changed(model, now)) {
      model.parameters = std::move(now);
      strategy_.replicate(model.parameters, {});
      replace_path(model, std::move(model.path));
    }
  }
}

void PreparedObjects::build_path(PreparedModel& model) {
  model.requires_grad.clear();
  for (const at::Tensor& parameter : model.parameters.tensors) {
    model.requires_grad.push_back(parameter.requires_grad());
  }
  NamedTensors training = trainable(model.parameters);
  if (!model.evaluation_mode && training.size() > 0) {
    model.path = strategy_.make_path(std::move(training));
  }
}

// Two paths of the same parameters must not exist at the same time.
void PreparedObjects::replace_path(
    PreparedModel& model, std::unique_ptr<GradientPath> old) {
  const SavedSums kept(old.get());
  old.reset();
  build_path(model);
  kept.move_to(model.path.get());
}

bool PreparedObjects::contains(const torch::nn::Module& module) const {
  return std::ranges::any_of(models_, [&](const PreparedModel& model) {
    return model.module == &module;
  });
}

std::vector<const PreparedModel*> PreparedObjects::trained_models() const {
  std::vector<const PreparedModel*> found;
  for (const PreparedModel& model : models_) {
    if (model.path) {
      found.push_back(&model);
    }
  }
  return found;
}

std::vector<at::Tensor> PreparedObjects::trained_parameters() const {
  std::vector<at::Tensor> all;
  for (const PreparedModel* model : trained_models()) {
    const auto& tensors = model->path->parameters().tensors;
    all.insert(all.end(), tensors.begin(), tensors.end());
  }
  return all;
}

void PreparedObjects::add_loader(DataLoaderBase& loader) {
  const auto known = loaders();
  if (std::ranges::find(known, &loader) == known.end()) {
    loaders_.push_back({&loader, loader.lifetime()});
  }
}

std::vector<DataLoaderBase*> PreparedObjects::loaders() {
  std::erase_if(loaders_, [](const PreparedLoader& known) {
    return known.lifetime.expired();
  });
  std::vector<DataLoaderBase*> result;
  for (const PreparedLoader& known : loaders_) {
    result.push_back(known.loader);
  }
  return result;
}

void PreparedObjects::add_optimizer(torch::optim::Optimizer& optimizer) {
  PreparedOptimizer added;
  added.optimizer = &optimizer;
  std::set<const void*> ids;
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      added.parameters.emplace_back(parameter.getIntrusivePtr());
      ids.insert(parameter.unsafeGetTensorImpl());
    }
  }
  std::erase_if(optimizers_, [&](const PreparedOptimizer& known) {
    std::set<const void*> known_ids;
    for (const auto& parameter : known.parameters) {
      known_ids.insert(parameter.lock().get());
    }
    return known.optimizer == &optimizer || known_ids == ids;
  });
  optimizers_.push_back(std::move(added));
}

std::vector<torch::optim::Optimizer*> PreparedObjects::optimizers() {
  std::erase_if(optimizers_, [](const PreparedOptimizer& known) {
    return std::ranges::any_of(known.parameters, [](const auto& parameter) {
      return parameter.expired();
    });
  });
  std::vector<torch::optim::Optimizer*> result;
  for (const PreparedOptimizer& known : optimizers_) {
    result.push_back(known.optimizer);
  }
  return result;
}

void PreparedObjects::add_scheduler(
    LRScheduler& scheduler,
    const std::shared_ptr<const SchedulerContext>& lifetime) {
  schedulers_.push_back({&scheduler, lifetime});
}

std::vector<LRScheduler*> PreparedObjects::schedulers() {
  std::erase_if(schedulers_, [](const PreparedScheduler& known) {
    return known.lifetime.expired();
  });
  std::vector<LRScheduler*> result;
  for (const PreparedScheduler& known : schedulers_) {
    result.push_back(known.scheduler);
  }
  return result;
}

void PreparedObjects::clear() {
  models_.clear();
  loaders_.clear();
  optimizers_.clear();
  schedulers_.clear();
}

}  // namespace accelerate
