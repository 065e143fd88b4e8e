// SPDX-License-Identifier: Apache-2.0
#include "device/cuda_facts.h"

#include <filesystem>

#include <dlfcn.h>

#include <ATen/Context.h>

#include "base/str_cat.h"

namespace accelerate {
namespace {

// Marks the library (or the test program) that this file is linked into.
const char kMarker = 0;

std::filesystem::path folder_of(const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) {
    return std::filesystem::current_path();
  }
  return std::filesystem::absolute(info.dli_fname).parent_path();
}

// Querying the version does not initialize the driver.
void query_driver(CudaFacts& facts) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) {
    const char* reason = dlerror();
    facts.driver_error = reason != nullptr ? reason : "dlopen gave no reason";
    return;
  }
  using GetVersion = int (*)(int*);
  const auto get_version =
      reinterpret_cast<GetVersion>(dlsym(driver, "cuDriverGetVersion"));
  int version = 0;
  const int status = get_version != nullptr ? get_version(&version) : -1;
  if (status == 0) {
    facts.driver_version = version;
  } else {
    facts.driver_error = str_cat(
        "libcuda.so.1 does not report its version (error ", status, ")");
  }
}

}  // namespace

std::string cuda_version_text(int version) {
  return str_cat(version / 1000, ".", version % 1000 / 10);
}

CudaFacts collect_cuda_facts() {
  CudaFacts facts;
  query_driver(facts);
  const auto torch =
      folder_of(reinterpret_cast<const void*>(&at::globalContext));
  facts.torch_folder = torch.string();
  facts.torch_has_cuda = std::filesystem::exists(torch / "libtorch_cuda.so");
  const auto library = folder_of(&kMarker) / "libaccelerate_cuda.so";
  facts.library = library.string();
  facts.has_library = std::filesystem::exists(library);
  return facts;
}

std::optional<UnsupportedError> cuda_problem(const CudaFacts& facts) {
  if (!facts.driver_version) {
    return UnsupportedError(
        str_cat("this machine has no NVIDIA driver: ", facts.driver_error),
        "install the driver, or train on the CPU with `--cpu`");
  }
  if (*facts.driver_version < kMinDriverVersion) {
    return UnsupportedError(
        str_cat(
            "the NVIDIA driver supports CUDA up to ",
            cuda_version_text(*facts.driver_version),
            ", but this build needs CUDA ",
            cuda_version_text(kMinDriverVersion)),
        "install driver 580 or later, or train on the CPU with `--cpu`");
  }
  if (!facts.torch_has_cuda) {
    return UnsupportedError(
        str_cat(
            "the LibTorch in ", facts.torch_folder, " was built without CUDA"),
        "build with the LibTorch that `make deps` installs, or with another "
        "LibTorch that contains libtorch_cuda.so");
  }
  if (!facts.has_library) {
    return UnsupportedError(
        str_cat(
            "this build has no CUDA support: `",
            facts.library,
            "` does not exist"),
        "install CUDA toolkit 13 and rebuild; -DACCELERATE_CUDA=ON makes "
        "CMake report what is missing");
  }
  return std::nullopt;
}

std::string gpu_text(const GpuFacts& gpu) {
  return str_cat(gpu.name, " (sm_", gpu.major, gpu.minor, ")");
}

bool gpu_computes_in(c10::ScalarType type, const GpuFacts& gpu) {
  const int capability = gpu.major * 10 + gpu.minor;
  switch (type) {
    case c10::ScalarType::BFloat16:
      return capability >= 80;
    case c10::ScalarType::Half:
      return capability >= 60;
    case c10::ScalarType::Float8_e4m3fn:
    case c10::ScalarType::Float8_e5m2:
      return capability >= 89;
    default:
      return true;
  }
}

UnsupportedError missing_kernels_error(
    const GpuFacts& gpu,
    const std::string& architectures,
    const std::string& reason) {
  return UnsupportedError(
      str_cat(
          "GPU ",
          gpu.index,
          ", ",
          gpu_text(gpu),
          ", cannot run this build's kernels (compiled for ",
          architectures,
          "): ",
          reason),
      gpu.major * 10 + gpu.minor < kMinComputeCapability
          ? str_cat(
                "train on the CPU with `--cpu`: the kernels need sm_",
                kMinComputeCapability,
                " or later")
          : str_cat(
                "rebuild with -DACCELERATE_CUDA_ARCHITECTURES=",
                gpu.major,
                gpu.minor,
                ", or train on the CPU with `--cpu`"));
}

void check_nccl_versions(
    const NcclVersion& compiled, const NcclVersion& loaded) {
  const auto text = [](const NcclVersion& version) {
    return str_cat(version[0], ".", version[1], ".", version[2]);
  };
  if (compiled[0] != loaded[0] || compiled[1] != loaded[1]) {
    throw UnsupportedError(
        str_cat(
            "libaccelerate_cuda.so was compiled with NCCL ",
            text(compiled),
            ", but LibTorch loads NCCL ",
            text(loaded)),
        "rebuild with the nccl.h from the NCCL release that LibTorch loads");
  }
}

}  // namespace accelerate
