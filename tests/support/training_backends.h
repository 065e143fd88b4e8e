// SPDX-License-Identifier: Apache-2.0
// The backends with which this binary runs the tests of training on several
// processes. The binary of the GPU tests defines ACCELERATE_TEST_NCCL.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace accelerate {

#ifdef ACCELERATE_TEST_NCCL
inline const std::vector<std::string> kTrainingBackends{"nccl"};
inline constexpr char kTrainingWorker[] = "gpu_training_worker";
#else
inline const std::vector<std::string> kTrainingBackends{"shm", "gloo"};
inline constexpr char kTrainingWorker[] = "training_worker";
#endif

inline bool backend_is_available(const std::string& backend) {
  return backend != "nccl" || std::filesystem::exists("/dev/nvidiactl");
}

}  // namespace accelerate

#define ACCELERATE_NEEDS_BACKEND(backend)             \
  if (!::accelerate::backend_is_available(backend)) { \
    GTEST_SKIP() << "there is no GPU";                \
  }
