// SPDX-License-Identifier: Apache-2.0
#include "accelerate/random.h"

#include <mutex>

#include <ATen/CPUGeneratorImpl.h>

#include "accelerate/error.h"

namespace accelerate {
namespace {

at::Generator chosen(
    RngType type, const std::optional<at::Generator>& generator) {
  switch (type) {
    case RngType::torch:
      return at::detail::getDefaultCPUGenerator();
    case RngType::generator:
      if (!generator || !generator->defined()) {
        throw ArgumentError(
            "RngType::generator needs a generator, got none",
            "pass the generator as second argument, or use RngType::torch");
      }
      return *generator;
  }
  throw InternalError("an RngType without a meaning");
}

}  // namespace

void synchronize_rng_state(
    RngType type, std::optional<at::Generator> generator, const Group& group) {
  at::Generator target = chosen(type, generator);
  at::Tensor state;
  {
    const std::lock_guard lock(target.mutex());
    state = target.get_state();
  }
  group.broadcast({state});
  const std::lock_guard lock(target.mutex());
  target.set_state(state);
}

void synchronize_rng_states(
    const std::vector<RngType>& types,
    std::optional<at::Generator> generator,
    const Group& group) {
  for (const RngType type : types) {
    synchronize_rng_state(type, generator, group);
  }
}

}  // namespace accelerate
