// SPDX-License-Identifier: Apache-2.0
// What a host and this build have of CUDA, and what is missing.
#pragma once

#include <array>
#include <optional>
#include <string>

#include <c10/core/ScalarType.h>

#include "accelerate/error.h"

namespace accelerate {

/// Found without starting a device.
struct CudaFacts {
  /// What the driver can run, as in 13000; nothing without a driver.
  std::optional<int> driver_version;
  /// Why there is none, in the system's words.
  std::string driver_error;
  /// LibTorch's folder, and whether it has CUDA in it.
  std::string torch_folder;
  bool torch_has_cuda = false;
  /// Where the CUDA half of this library lies, or should.
  std::string library;
  bool has_library = false;
};

/// What the CUDA that we are built with asks of a driver.
inline constexpr int kNeededDriver = 13000;

/// What our kernels are written for: sm_80 and later.
inline constexpr int kOldestGpu = 80;

/// Looks at this host and this build.
CudaFacts collect_cuda_facts();

/// Why CUDA cannot be used; nothing when it can. Each reason names what was
/// found and what to do.
std::optional<UnsupportedError> cuda_problem(const CudaFacts& facts);

/// A release of NCCL: major, minor, patch.
using NcclVersion = std::array<int, 3>;

/// Throws `UnsupportedError` when the NCCL that LibTorch loaded is not of the
/// release the CUDA half was compiled with: the options of its groups hold a
/// structure of NCCL's.
ACCELERATE_API void check_nccl_versions(
    const NcclVersion& compiled, const NcclVersion& loaded);

/// One GPU, as it describes itself.
struct GpuFacts {
  int index = 0;
  std::string name;
  /// Compute capability: 9 and 0 for sm_90.
  int major = 0;
  int minor = 0;
};

/// `NVIDIA H200 (sm_90)`.
ACCELERATE_API std::string gpu_text(const GpuFacts& gpu);

/// Whether it multiplies matrices in `type` by itself: fp16 from sm_60 on, bf16
/// from sm_80, fp8 from sm_89. LibTorch would emulate what is missing, slowly.
ACCELERATE_API bool gpu_computes_in(c10::ScalarType type, const GpuFacts& gpu);

/// What to throw when the driver refuses this build's kernels, which are for
/// `architectures` (`sm_90,sm_100`), for the reason `why`.
ACCELERATE_API UnsupportedError kernels_missing(
    const GpuFacts& gpu,
    const std::string& architectures,
    const std::string& why);

/// `13000` → `13.0`.
std::string cuda_version_text(int version);

}  // namespace accelerate
