// SPDX-License-Identifier: Apache-2.0
#include "cuda/blocks/low_precision_weights.h"

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

struct LowPrecisionCopy {
  WeakTensor parameter;
  const void* data;  // The parameter's address when it was copied.
  std::int64_t version;
  at::Tensor concatenated;  // The tensor that contains `copy`.
  at::Tensor copy;
};

class CopyStore {
 public:
  at::Tensor concatenated(const std::vector<at::Tensor>& parameters) {
    const std::lock_guard lock(mutex_);
    if (!are_concatenated(parameters)) {
      allocate(parameters);
    }
    for (const at::Tensor& parameter : parameters) {
      refresh(parameter, copies_.at(parameter.unsafeGetTensorImpl()));
    }
    return copies_.at(parameters.front().unsafeGetTensorImpl()).concatenated;
  }

  at::Tensor find(const at::Tensor& parameter) {
    const std::lock_guard lock(mutex_);
    const auto found = copies_.find(parameter.unsafeGetTensorImpl());
    if (found == copies_.end() || is_stale(parameter, found->second)) {
      return {};
    }
    return found->second.copy;
  }

  void mark_changed(const at::Tensor& parameter, bool copy_is_current) {
    const std::lock_guard lock(mutex_);
    parameter.unsafeGetTensorImpl()->bump_version();
    if (copy_is_current) {
      copies_.at(parameter.unsafeGetTensorImpl()).version =
          parameter._version();
    }
  }

  void refresh_all() {
    const std::lock_guard lock(mutex_);
    for (auto entry = copies_.begin(); entry != copies_.end();) {
      auto strong = entry->second.parameter.lock();
      if (!strong) {
        entry = copies_.erase(entry);
        continue;
      }
      refresh(at::Tensor(std::move(strong)), entry->second);
      ++entry;
    }
  }

 private:
  static bool is_stale(
      const at::Tensor& parameter, const LowPrecisionCopy& entry) {
    return entry.version != parameter._version() ||
           entry.data != parameter.data_ptr() || entry.parameter.expired();
  }

  static void refresh(const at::Tensor& parameter, LowPrecisionCopy& entry) {
    if (!is_stale(parameter, entry)) {
      return;
    }
    const at::NoGradGuard no_grad;
    entry.copy.copy_(parameter.detach());
    entry.version = parameter._version();
    entry.data = parameter.data_ptr();
  }

  bool are_concatenated(const std::vector<at::Tensor>& parameters) const {
    const void* first_address = nullptr;
    std::int64_t rows = 0;
    for (const at::Tensor& parameter : parameters) {
      const auto found = copies_.find(parameter.unsafeGetTensorImpl());
      if (found == copies_.end() || found->second.parameter.expired() ||
          found->second.copy.sizes() != parameter.sizes() ||
          found->second.copy.device() != parameter.device()) {
        return false;
      }
      const void* const address = found->second.concatenated.data_ptr();
      if (first_address != nullptr && address != first_address) {
        return false;
      }
      first_address = address;
      rows += parameter.size(0);
    }
    return copies_.at(parameters.front().unsafeGetTensorImpl())
               .concatenated.size(0) == rows;
  }

  void allocate(const std::vector<at::Tensor>& parameters) {
    std::erase_if(copies_, [](const auto& entry) {
      return entry.second.parameter.expired();
    });
    std::int64_t rows = 0;
    for (const at::Tensor& parameter : parameters) {
      rows += parameter.size(0);
    }
    auto sizes = parameters.front().sizes().vec();
    sizes[0] = padded(rows);
    const at::Tensor concatenated =
        at::zeros(sizes, parameters.front().options().dtype(at::kBFloat16))
            .narrow(0, 0, rows);
    std::int64_t row = 0;
    for (const at::Tensor& parameter : parameters) {
      copies_.insert_or_assign(
          parameter.unsafeGetTensorImpl(),
          LowPrecisionCopy{
              WeakTensor(parameter.getIntrusivePtr()),
              nullptr,
              0,
              concatenated,
              concatenated.narrow(0, row, parameter.size(0))});
      row += parameter.size(0);
    }
  }

  std::mutex mutex_;
  std::unordered_map<const c10::TensorImpl*, LowPrecisionCopy> copies_;
};

CopyStore& copy_store() {
  // Never destroyed, because CUDA may shut down first.
  static CopyStore* const instance = new CopyStore;
  return *instance;
}

}  // namespace

at::Tensor low_precision_copy_of(const std::vector<at::Tensor>& parameters) {
  if (parameters.front().scalar_type() == at::kBFloat16) {
    return parameters.size() == 1 ? parameters.front().detach()
                                  : at::cat(parameters, 0).detach();
  }
  return copy_store().concatenated(parameters);
}

at::Tensor padded_low_precision_copy_of(const at::Tensor& parameter) {
  if (parameter.scalar_type() == at::kBFloat16) {
    const std::int64_t rows = parameter.size(0);
    return at::constant_pad_nd(
        parameter.detach(), {0, 0, 0, padded(rows) - rows});
  }
  const at::Tensor copy = low_precision_copy_of(parameter);
  auto sizes = copy.sizes().vec();
  sizes[0] = padded(sizes[0]);
  return copy.as_strided(sizes, copy.strides());
}

at::Tensor find_low_precision_copy(const at::Tensor& parameter) {
  return copy_store().find(parameter);
}

void mark_changed(const at::Tensor& parameter, bool copy_is_current) {
  copy_store().mark_changed(parameter, copy_is_current);
}

void refresh_low_precision_copies() {
  copy_store().refresh_all();
}

}  // namespace accelerate::cuda
