// SPDX-License-Identifier: Apache-2.0
#include "cuda/blocks/shadows.h"

#include <mutex>
#include <unordered_map>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/zeros.h>

namespace accelerate::cuda {
namespace {

using WeakTensor =
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

std::int64_t padded(std::int64_t rows) {
  return (rows + 63) / 64 * 64;
}

struct Shadow {
  WeakTensor parameter;
  const void* data;  // Where the parameter was when it was copied.
  std::int64_t version;
  at::Tensor joined;  // What it is a part of.
  at::Tensor copy;    // Its own part.
};

class Store {
 public:
  at::Tensor joined(const std::vector<at::Tensor>& parameters) {
    const std::lock_guard lock(mutex_);
    if (!lie_together(parameters)) {
      make(parameters);
    }
    for (const at::Tensor& parameter : parameters) {
      refresh(parameter, shadows_.at(parameter.unsafeGetTensorImpl()));
    }
    return shadows_.at(parameters.front().unsafeGetTensorImpl()).joined;
  }

  at::Tensor find(const at::Tensor& parameter) {
    const std::lock_guard lock(mutex_);
    const auto found = shadows_.find(parameter.unsafeGetTensorImpl());
    if (found == shadows_.end() || is_stale(parameter, found->second)) {
      return {};
    }
    return found->second.copy;
  }

  void note_change(const at::Tensor& parameter, bool with_shadow) {
    const std::lock_guard lock(mutex_);
    parameter.unsafeGetTensorImpl()->bump_version();
    if (with_shadow) {
      shadows_.at(parameter.unsafeGetTensorImpl()).version =
          parameter._version();
    }
  }

  void refresh_all() {
    const std::lock_guard lock(mutex_);
    for (auto entry = shadows_.begin(); entry != shadows_.end();) {
      auto strong = entry->second.parameter.lock();
      if (!strong) {
        entry = shadows_.erase(entry);
        continue;
      }
      refresh(at::Tensor(std::move(strong)), entry->second);
      ++entry;
    }
  }

 private:
  static bool is_stale(const at::Tensor& parameter, const Shadow& shadow) {
    return shadow.version != parameter._version() ||
           shadow.data != parameter.data_ptr() || shadow.parameter.expired();
  }

  static void refresh(const at::Tensor& parameter, Shadow& shadow) {
    if (!is_stale(parameter, shadow)) {
      return;
    }
    const at::NoGradGuard no_grad;
    shadow.copy.copy_(parameter.detach());
    shadow.version = parameter._version();
    shadow.data = parameter.data_ptr();
  }

  bool lie_together(const std::vector<at::Tensor>& parameters) const {
    const void* first = nullptr;
    std::int64_t rows = 0;
    for (const at::Tensor& parameter : parameters) {
      const auto found = shadows_.find(parameter.unsafeGetTensorImpl());
      if (found == shadows_.end() || found->second.parameter.expired() ||
          found->second.copy.sizes() != parameter.sizes() ||
          found->second.copy.device() != parameter.device()) {
        return false;
      }
      const void* const here = found->second.joined.data_ptr();
      if (first != nullptr && here != first) {
        return false;
      }
      first = here;
      rows += parameter.size(0);
    }
    return shadows_.at(parameters.front().unsafeGetTensorImpl())
               .joined.size(0) == rows;
  }

  void make(const std::vector<at::Tensor>& parameters) {
    std::erase_if(shadows_, [](const auto& entry) {
      return entry.second.parameter.expired();
    });
    std::int64_t rows = 0;
    for (const at::Tensor& parameter : parameters) {
      rows += parameter.size(0);
    }
    auto sizes = parameters.front().sizes().vec();
    sizes[0] = padded(rows);
    const at::Tensor joined =
        at::zeros(sizes, parameters.front().options().dtype(at::kBFloat16))
            .narrow(0, 0, rows);
    std::int64_t row = 0;
    for (const at::Tensor& parameter : parameters) {
      shadows_.insert_or_assign(
          parameter.unsafeGetTensorImpl(),
          Shadow{
              WeakTensor(parameter.getIntrusivePtr()),
              nullptr,
              0,
              joined,
              joined.narrow(0, row, parameter.size(0))});
      row += parameter.size(0);
    }
  }

  std::mutex mutex_;
  std::unordered_map<const c10::TensorImpl*, Shadow> shadows_;
};

Store& store() {
  static Store* const one = new Store;  // Outlives CUDA's own teardown.
  return *one;
}

}  // namespace

at::Tensor shadow_of(const std::vector<at::Tensor>& parameters) {
  if (parameters.front().scalar_type() == at::kBFloat16) {
    return parameters.size() == 1 ? parameters.front().detach()
                                  : at::cat(parameters, 0).detach();
  }
  return store().joined(parameters);
}

at::Tensor padded_shadow_of(const at::Tensor& parameter) {
  if (parameter.scalar_type() == at::kBFloat16) {
    const std::int64_t rows = parameter.size(0);
    return at::constant_pad_nd(
        parameter.detach(), {0, 0, 0, padded(rows) - rows});
  }
  const at::Tensor shadow = shadow_of(parameter);
  auto sizes = shadow.sizes().vec();
  sizes[0] = padded(sizes[0]);
  return shadow.as_strided(sizes, shadow.strides());
}

at::Tensor find_shadow(const at::Tensor& parameter) {
  return store().find(parameter);
}

void note_change(const at::Tensor& parameter, bool with_shadow) {
  store().note_change(parameter, with_shadow);
}

void refresh_shadows() {
  store().refresh_all();
}

}  // namespace accelerate::cuda
