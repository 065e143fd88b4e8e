// SPDX-License-Identifier: Apache-2.0
#include "cuda/blocks/recorded_random.h"

#include <utility>

#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>

namespace accelerate::cuda {
namespace {

thread_local RecordedRandom* recorded_now = nullptr;

void copy_number(std::int64_t* to, const std::int64_t* from) {
  C10_CUDA_CHECK(cudaMemcpyAsync(
      to,
      from,
      sizeof *to,
      cudaMemcpyDeviceToDevice,
      at::cuda::getCurrentCUDAStream().stream()));
}

}  // namespace

RecordedRandom::Scope::Scope(RecordedRandom& home)
    : outer_(std::exchange(recorded_now, &home)) {
}
RecordedRandom::Scope::~Scope() {
  recorded_now = outer_;
}

RecordedRandom* RecordedRandom::current() {
  return recorded_now;
}

kernels::Random RecordedRandom::keep(const kernels::Random& drawn) {
  if (!pair_.defined()) {
    pair_ = at::empty({2}, at::TensorOptions(at::kLong).device(at::kCUDA));
    copy_number(pair_.data_ptr<std::int64_t>(), drawn.seed_at);
    copy_number(pair_.data_ptr<std::int64_t>() + 1, drawn.offset_at);
  }
  const auto* const pair = pair_.data_ptr<std::int64_t>();
  return {pair, pair + 1, drawn.seed, drawn.offset};
}

}  // namespace accelerate::cuda
