// SPDX-License-Identifier: Apache-2.0
// Uses one class from this library and one from LibTorch, as any program would.
// region: program
#include <cstdio>

#include <accelerate/error.h>

#include <c10/core/Device.h>

int main() {
  try {
    throw accelerate::ArgumentError("caught on " + c10::Device("cpu").str());
  } catch (const accelerate::Error& error) {
    std::puts(error.what());
  }
}
// endregion
