// SPDX-License-Identifier: Apache-2.0
#include "device/lazy_tensor.h"

#include <memory>
#include <mutex>
#include <utility>

#include <ATen/core/grad_mode.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>

#include "device/interception.h"

namespace accelerate {
namespace {

class ComputeOnRead final : public Interceptor {
 public:
  explicit ComputeOnRead(std::function<at::Tensor()> compute)
      : compute_(std::move(compute)) {}

  void intercept(InterceptedCall& call) override {
    call.proceed_with(value(), *this);
  }

 private:
  const at::Tensor& value() {
    std::call_once(computed_, [this] {
      const at::AutoGradMode with_gradients(true);
      value_ = compute_();
      compute_ = nullptr;
    });
    return value_;
  }

  std::once_flag computed_;
  std::function<at::Tensor()> compute_;
  at::Tensor value_;
};

}  // namespace

at::Tensor lazy_tensor(
    at::IntArrayRef sizes,
    c10::ScalarType dtype,
    c10::Device device,
    std::function<at::Tensor()> compute) {
  const auto options = at::TensorOptions(dtype).device(device);
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(
          c10::Storage::use_byte_size_t(), 0, at::DataPtr(nullptr, device)),
      c10::DispatchKeySet(options.computeDispatchKey()),
      options.dtype());
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  mark(tensor, std::make_shared<ComputeOnRead>(std::move(compute)));
  tensor.storage()
      .unsafeGetStorageImpl()
      ->release_data_and_set_meta_custom_data_ptr_error_msg_(
          "this tensor is computed when an operator reads it, so it has no "
          "data pointer; call `clone` first");
  return tensor;
}

}  // namespace accelerate
