// SPDX-License-Identifier: Apache-2.0
// Checks that each rank has its own GPU, before NCCL connects the ranks.
#pragma once

#include <string>
#include <vector>

namespace accelerate {

/// Throws `UnsupportedError` if NCCL would refuse to connect ranks because they
/// use the same GPU of one machine; the error names the ranks. `gpus[r]`
/// identifies the GPU of rank r, and `nccl_ids[r]` is that rank's NCCL_HOSTID,
/// which is empty if the variable is not set. NCCL treats ranks with different
/// NCCL_HOSTIDs as ranks on different machines, so these ranks may share a GPU.
/// `description` describes a GPU of this rank for the error message.
void check_distinct_gpus(
    const std::vector<std::string>& gpus,
    const std::vector<std::string>& nccl_ids,
    const std::string& description);

}  // namespace accelerate
