// SPDX-License-Identifier: Apache-2.0
#include "cuda/nccl_group.h"

#include <nccl.h>

#include <c10/util/env.h>
#include <torch/csrc/distributed/c10d/NCCLUtils.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "device/cuda_facts.h"

namespace accelerate::cuda {
namespace {

// LibTorch reads these settings only from the environment. By default, if NCCL
// reports an error, LibTorch waits a minute for debug information to be
// written, even if the process is exiting, and then ends the process. This
// library reports the error itself, so LibTorch is set to only abort the
// communicators ("CleanUpOnly"), without waiting.
void keep_process_after_errors() {
  constexpr bool kOverwrite = false;
  c10::utils::set_env("TORCH_NCCL_ASYNC_ERROR_HANDLING", "2", kOverwrite);
  c10::utils::set_env("TORCH_NCCL_ENABLE_MONITORING", "0", kOverwrite);
  c10::utils::set_env("TORCH_NCCL_DUMP_ON_TIMEOUT", "0", kOverwrite);
  c10::utils::set_env("TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC", "0", kOverwrite);
}

}  // namespace

void check_nccl_version() {
  const auto [major, minor, patch] = c10d::getNcclVersionTuple();
  check_nccl_versions(
      {NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH}, {major, minor, patch});
}

c10::intrusive_ptr<c10d::Backend> make_nccl_group(
    const DeviceGroupOptions& options) {
  keep_process_after_errors();
  auto nccl_options = c10d::ProcessGroupNCCL::Options::create(
      /*is_high_priority_stream=*/true);
  nccl_options->timeout = options.timeout;
  nccl_options->group_name = options.name;
  auto store = c10::intrusive_ptr<c10d::Store>::reclaim_copy(options.store);
  auto group = c10::make_intrusive<c10d::ProcessGroupNCCL>(
      store, options.rank, options.size, nccl_options);
  group->setBoundDeviceId(options.device);
  group->eagerConnectSingleDevice(options.device);
  return group;
}

}  // namespace accelerate::cuda
