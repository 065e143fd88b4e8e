// SPDX-License-Identifier: Apache-2.0
// Checks which parts of CUDA are available on this machine and in this build.
#pragma once

#include <array>
#include <optional>
#include <string>

#include <c10/core/ScalarType.h>

#include "accelerate/error.h"

namespace accelerate {

/// What is known about CUDA on this machine and in this build. Collected
/// without initializing a device.
struct CudaFacts {
  /// The newest CUDA version that the driver supports, for example 13000 for
  /// CUDA 13.0. Empty if there is no driver, or if the driver does not report
  /// its version.
  std::optional<int> driver_version;
  /// Why `driver_version` is empty.
  std::string driver_error;
  /// The folder that contains LibTorch.
  std::string torch_folder;
  /// Whether `torch_folder` contains libtorch_cuda.so.
  bool torch_has_cuda = false;
  /// The path at which libaccelerate_cuda.so is expected.
  std::string library;
  /// Whether the file `library` exists.
  bool has_library = false;
};

/// The CUDA version that this build uses. The driver must support this version
/// or a newer version.
inline constexpr int kMinDriverVersion = 13000;

/// The lowest compute capability that the kernels in this build support: sm_80.
inline constexpr int kMinComputeCapability = 80;

/// Inspects this machine and this build.
CudaFacts collect_cuda_facts();

/// Returns the error that explains why CUDA cannot be used and what to do;
/// empty if CUDA can be used.
std::optional<UnsupportedError> cuda_problem(const CudaFacts& facts);

/// An NCCL version: major, minor, patch.
using NcclVersion = std::array<int, 3>;

/// Throws `UnsupportedError` if the NCCL version that LibTorch loaded differs
/// in its major or minor number from the NCCL version that
/// libaccelerate_cuda.so was compiled with. The numbers must match because the
/// options for a process group contain an NCCL struct.
ACCELERATE_API void check_nccl_versions(
    const NcclVersion& compiled, const NcclVersion& loaded);

/// The properties of one GPU.
struct GpuFacts {
  int index = 0;
  std::string name;
  /// Compute capability: for sm_90, `major` is 9 and `minor` is 0.
  int major = 0;
  int minor = 0;
};

/// Returns the GPU's name and architecture, for example `NVIDIA H200 (sm_90)`.
ACCELERATE_API std::string gpu_text(const GpuFacts& gpu);

/// Returns whether the GPU has native matmuls in `type`: fp16 requires sm_60,
/// bf16 requires sm_80, and fp8 requires sm_89. Returns true for every other
/// type. LibTorch emulates matmuls that are not native, which is slow.
ACCELERATE_API bool gpu_computes_in(c10::ScalarType type, const GpuFacts& gpu);

/// Returns the error for a GPU that cannot run the kernels in this build.
/// `architectures` lists the architectures that the kernels are compiled for,
/// for example `sm_80 sm_90`. `reason` is the error text from CUDA.
ACCELERATE_API UnsupportedError missing_kernels_error(
    const GpuFacts& gpu,
    const std::string& architectures,
    const std::string& reason);

/// Formats a CUDA version: 13000 becomes `13.0`.
std::string cuda_version_text(int version);

}  // namespace accelerate
