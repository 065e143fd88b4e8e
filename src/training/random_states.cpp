// SPDX-License-Identifier: Apache-2.0
#include "training/random_states.h"

#include <cstdint>
#include <mutex>
#include <string>

#include <ATen/Context.h>
#include <c10/util/Exception.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "checkpoint_directory/checksum.h"

namespace accelerate {

at::Tensor random_state(c10::Device device) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_random_state(const at::Tensor& state, c10::Device device) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  try {
    generator.set_state(state.clone());
  } catch (const c10::Error& error) {
    throw FormatError(str_cat(
        "the saved random state does not fit ",
        device.str(),
        ": ",
        error.what_without_backtrace()));
  }
}

void set_derived_random_state(
    const at::Tensor& state, const int rank, c10::Device device) {
  const std::string sum = checksum_of(
      {static_cast<const char*>(state.const_data_ptr()),
       static_cast<std::size_t>(state.nbytes())});
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(
      std::stoull(sum, nullptr, 16) + static_cast<std::uint64_t>(rank));
}

}  // namespace accelerate
