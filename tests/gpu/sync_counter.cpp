// SPDX-License-Identifier: Apache-2.0
// Uses CUPTI, which LibTorch has loaded. Its functions are declared here so
// that the tests build without a CUDA toolkit.
#include <cstdint>
#include <cstring>
#include <mutex>
#include <stdexcept>

#include <dlfcn.h>

#include "gpu/gpu.h"

namespace accelerate {
namespace {

// The first members of CUPTI's CUpti_CallbackData.
struct CallbackData {
  int site;  // 0 when the call is entered
  const char* function;
};

using Callback = void (*)(void*, int, std::uint32_t, const CallbackData*);
constexpr int kRuntimeCalls = 2;

struct Calls {
  std::mutex mutex;
  std::vector<std::string> names;
  void* subscriber = nullptr;
};

Calls& calls_of_process() {
  static Calls calls;
  return calls;
}

bool synchronizes_with_device(const char* function) {
  return std::strstr(function, "Synchronize") != nullptr ||
         std::strcmp(function, "cudaMemcpy") == 0 ||
         std::strcmp(function, "cudaMalloc") == 0 ||
         std::strcmp(function, "cudaFree") == 0;
}

void record_call(void*, int domain, std::uint32_t, const CallbackData* data) {
  if (domain == kRuntimeCalls && data->site == 0 &&
      synchronizes_with_device(data->function)) {
    const std::lock_guard lock(calls_of_process().mutex);
    calls_of_process().names.emplace_back(data->function);
  }
}

template <typename Function>
Function find(const char* name) {
  static void* library = dlopen("libcupti.so.13", RTLD_NOW | RTLD_LOCAL);
  void* found = library != nullptr ? dlsym(library, name) : nullptr;
  if (found == nullptr) {
    throw std::runtime_error(std::string("CUPTI has no function ") + name);
  }
  return reinterpret_cast<Function>(found);
}

void check(int status, const char* function) {
  if (status != 0) {
    throw std::runtime_error(
        std::string(function) + " returned error " + std::to_string(status));
  }
}

}  // namespace

SyncCounter::SyncCounter() {
  Calls& calls = calls_of_process();
  calls.names.clear();
  check(
      find<int (*)(void**, Callback, void*)>("cuptiSubscribe")(
          &calls.subscriber, &record_call, nullptr),
      "cuptiSubscribe");
  check(
      find<int (*)(std::uint32_t, void*, int)>("cuptiEnableDomain")(
          1, calls.subscriber, kRuntimeCalls),
      "cuptiEnableDomain");
}

SyncCounter::~SyncCounter() {
  find<int (*)(void*)>("cuptiUnsubscribe")(calls_of_process().subscriber);
}

int SyncCounter::count() const {
  const std::lock_guard lock(calls_of_process().mutex);
  return static_cast<int>(calls_of_process().names.size());
}

std::vector<std::string> SyncCounter::calls() const {
  const std::lock_guard lock(calls_of_process().mutex);
  return calls_of_process().names;
}

}  // namespace accelerate
