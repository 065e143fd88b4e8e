// SPDX-License-Identifier: Apache-2.0
#include "xla/device/generator.h"

#include <cstring>

#include <ATen/Utils.h>
#include <c10/core/GeneratorImpl.h>
#include <c10/core/TensorImpl.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "xla/graph/build.h"

namespace accelerate::xla {
namespace {

// splitmix64: neighboring inputs give unrelated results.
std::uint64_t mixed(std::uint64_t number) {
  number += 0x9e3779b97f4a7c15U;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9U;
  number = (number ^ (number >> 27)) * 0x94d049bb133111ebU;
  return number ^ (number >> 31);
}

struct State {
  std::uint64_t seed = c10::default_rng_seed_val;
  std::uint64_t offset = 0;
};

class XlaGenerator final : public c10::GeneratorImpl {
 public:
  XlaGenerator()
      : c10::GeneratorImpl(
            c10::Device(c10::kXLA, 0),
            c10::DispatchKeySet(c10::DispatchKey::XLA)) {}

  void set_current_seed(std::uint64_t seed) override { state_ = {seed, 0}; }
  std::uint64_t current_seed() const override { return state_.seed; }
  std::uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return state_.seed;
  }
  void set_offset(std::uint64_t offset) override { state_.offset = offset; }
  std::uint64_t get_offset() const override { return state_.offset; }

  void set_state(const c10::TensorImpl& tensor) override {
    if (tensor.numel() != sizeof(State)) {
      throw FormatError(str_cat(
          "the random state has ",
          tensor.numel(),
          " bytes, but the state of an XLA generator has ",
          sizeof(State)));
    }
    std::memcpy(&state_, tensor.data(), sizeof(State));
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    const at::Tensor tensor = at::detail::empty_cpu(
        {sizeof(State)}, c10::ScalarType::Byte, {}, {}, {}, {});
    std::memcpy(tensor.mutable_data_ptr(), &state_, sizeof(State));
    return tensor.getIntrusivePtr();
  }

  static c10::DeviceType device_type() { return c10::kXLA; }

  State next() {
    const State now = state_;
    ++state_.offset;
    return now;
  }

 private:
  XlaGenerator* clone_impl() const override {
    auto* copy = new XlaGenerator;
    copy->state_ = state_;
    return copy;
  }

  State state_;
};

}  // namespace

at::Generator make_generator() {
  return at::make_generator<XlaGenerator>();
}

const at::Generator& default_generator() {
  static const at::Generator generator = make_generator();
  return generator;
}

Value next_random_bits(
    const std::optional<at::Generator>& generator,
    ElementType type,
    const Shape& shape) {
  at::Generator chosen =
      generator && generator->defined() ? *generator : default_generator();
  const std::lock_guard lock(chosen.mutex());
  const State state = at::check_generator<XlaGenerator>(chosen)->next();
  return random_bits(
      scalar_u64(mixed(state.seed)),
      scalar_u64(mixed(state.offset)),
      type,
      shape);
}

}  // namespace accelerate::xla
