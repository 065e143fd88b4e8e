// SPDX-License-Identifier: Apache-2.0
#include "comm/distinct_gpus.h"

#include <cstddef>
#include <map>
#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "comm/wait_limits.h"

namespace accelerate {

// NCCL's own error message would contain only bus numbers.
void check_distinct_gpus(
    const std::vector<std::string>& gpus,
    const std::vector<std::string>& nccl_ids,
    const std::string& description) {
  using SharedGpu = std::pair<std::string, std::string>;
  std::map<SharedGpu, std::vector<int>> ranks;
  for (std::size_t rank = 0; rank < gpus.size(); ++rank) {
    ranks[{gpus[rank], nccl_ids[rank]}].push_back(static_cast<int>(rank));
  }
  for (const auto& [gpu, same] : ranks) {
    if (same.size() == 1) {
      continue;
    }
    const std::string& nccl_id = gpu.second;
    const std::string text =
        str_cat(name_ranks(same), " use the same GPU, ", description);
    if (!nccl_id.empty()) {
      throw UnsupportedError(
          str_cat(
              text, ", and the same NCCL_HOSTID, `", printable(nccl_id), "`"),
          "unset NCCL_HOSTID, and use one GPU per rank, or `accelerate launch "
          "--ranks_per_gpu`, which gives each rank on a GPU its own "
          "NCCL_HOSTID");
    }
    throw UnsupportedError(
        str_cat(text, ", but NCCL needs one GPU per rank"),
        "if ACCELERATE_TORCH_DEVICE is set, unset it, because it gives every "
        "process the same GPU; or set ACCELERATE_BACKEND=gloo to let processes "
        "share a GPU; to test NCCL with several ranks per GPU, use `accelerate "
        "launch --ranks_per_gpu`");
  }
}

}  // namespace accelerate
