// SPDX-License-Identifier: Apache-2.0
#include "accelerate/random.h"

#include <mutex>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include "accelerate/error.h"

namespace accelerate {
namespace {

at::Generator generator_of_device(const std::optional<c10::Device>& device) {
  if (!device || device->is_cpu()) {
    throw UnsupportedError(
        "synchronize_rng_state: RngType::cuda selects the generator of this "
        "process's GPU, but the process runs on the CPU",
        "use RngType::torch, or run on a GPU");
  }
  return at::globalContext().defaultGenerator(*device);
}

at::Generator select_generator(
    RngType type,
    const std::optional<at::Generator>& generator,
    const Group& group) {
  switch (type) {
    case RngType::torch:
      return at::detail::getDefaultCPUGenerator();
    case RngType::generator:
      if (!generator || !generator->defined()) {
        throw ArgumentError(
            "synchronize_rng_state: RngType::generator needs a generator, but "
            "none was passed",
            "pass the generator as the second argument of "
            "`synchronize_rng_state` or `synchronize_rng_states`, or use "
            "RngType::torch");
      }
      return *generator;
    case RngType::cuda:
      return generator_of_device(group.options().device);
  }
  throw InternalError("unknown RngType");
}

}  // namespace

void synchronize_rng_state(
    RngType type, std::optional<at::Generator> generator, const Group& group) {
  if (group.size() == 1 && type == RngType::cuda) {
    return;  // One process has nothing to synchronize; its group has no device.
  }
  at::Generator target = select_generator(type, generator, group);
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
