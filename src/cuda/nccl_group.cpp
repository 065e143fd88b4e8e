// SPDX-License-Identifier: Apache-2.0
#include "cuda/nccl_group.h"

#include <nccl.h>

#include <torch/csrc/distributed/c10d/NCCLUtils.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "device/cuda_facts.h"

namespace accelerate::cuda {
void check_nccl_version() {
  const auto [major, minor, patch] = c10d::getNcclVersionTuple();
  check_nccl_versions(
      {NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH}, {major, minor, patch});
}

c10::intrusive_ptr<c10d::Backend> make_nccl_group(
    const DeviceGroupOptions& options) {
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
