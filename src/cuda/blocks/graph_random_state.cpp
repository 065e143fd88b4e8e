// SPDX-License-Identifier: Apache-2.0
#include "cuda/blocks/graph_random_state.h"

#include <utility>

#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAException.h>

namespace accelerate::cuda {
namespace {

thread_local GraphRandomState* current_state = nullptr;

void copy_number(std::int64_t* to, const std::int64_t* from) {
  C10_CUDA_CHECK(cudaMemcpyAsync(
      to,
      from,
      sizeof *to,
      cudaMemcpyDeviceToDevice,
      at::cuda::getCurrentCUDAStream().stream()));
}

}  // namespace

GraphRandomState::Scope::Scope(GraphRandomState& state)
    : outer_(std::exchange(current_state, &state)) {
}
GraphRandomState::Scope::~Scope() {
  current_state = outer_;
}

GraphRandomState* GraphRandomState::current() {
  return current_state;
}

kernels::Random GraphRandomState::copy_of(const kernels::Random& drawn) {
  if (!seed_and_offset_.defined()) {
    seed_and_offset_ =
        at::empty({2}, at::TensorOptions(at::kLong).device(at::kCUDA));
    copy_number(seed_and_offset_.data_ptr<std::int64_t>(), drawn.seed_at);
    copy_number(seed_and_offset_.data_ptr<std::int64_t>() + 1, drawn.offset_at);
  }
  const auto* const values = seed_and_offset_.data_ptr<std::int64_t>();
  return {values, values + 1, drawn.seed, drawn.offset};
}

}  // namespace accelerate::cuda
