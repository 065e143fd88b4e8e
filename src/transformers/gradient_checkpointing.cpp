// SPDX-License-Identifier: Apache-2.0
#include "transformers/gradient_checkpointing.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/types.h>

namespace transformers {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Body = std::function<at::Tensor(const at::Tensor&)>;

at::Generator generator_of(const at::Device& device) {
  return at::globalContext().defaultGenerator(device);
}

at::Tensor random_state(const at::Device& device) {
  at::Generator generator = generator_of(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  return generator.get_state();
}

void set_random_state(const at::Device& device, const at::Tensor& state) {
  at::Generator generator = generator_of(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_state(state);
}

// The autocast state of a thread.
class AutocastState {
 public:
  explicit AutocastState(at::DeviceType device)
      : device_(device),
        enabled_(at::autocast::is_autocast_enabled(device)),
        dtype_(at::autocast::get_autocast_dtype(device)),
        cached_(at::autocast::is_autocast_cache_enabled()) {}
  void set() const {
    at::autocast::set_autocast_enabled(device_, enabled_);
    at::autocast::set_autocast_dtype(device_, dtype_);
    at::autocast::set_autocast_cache_enabled(cached_);
  }

 private:
  at::DeviceType device_;
  bool enabled_;
  at::ScalarType dtype_;
  bool cached_;
};

// Saves the thread's autocast and random state, and restores it at the end of
// the scope.
class SavedThreadState {
 public:
  explicit SavedThreadState(const at::Device& device)
      : device_(device),
        autocast_(device.type()),
        random_(random_state(device)) {}
  SavedThreadState(const SavedThreadState&) = delete;
  SavedThreadState& operator=(const SavedThreadState&) = delete;
  ~SavedThreadState() {
    autocast_.set();
    set_random_state(device_, random_);
  }

 private:
  at::Device device_;
  AutocastState autocast_;
  at::Tensor random_;
};

// `anchor` requires a gradient, so that the parameters of the first block get
// gradients even if its input requires none (frozen embeddings).
struct Checkpoint : torch::autograd::Function<Checkpoint> {
  static at::Tensor forward(
      AutogradContext* context,
      const at::Tensor& input,
      const at::Tensor& /*anchor*/,
      std::shared_ptr<Body> body) {
    context->save_for_backward({input});
    context->saved_data["random"] = random_state(input.device());
    context->saved_data["body"] =
        c10::IValue::make_capsule(c10::make_intrusive<SavedBody>(
            body, AutocastState(input.device().type())));
    context->saved_data["input_requires_grad"] = input.requires_grad();
    at::NoGradGuard no_grad;
    return (*body)(input);
  }

  static variable_list backward(
      AutogradContext* context, const variable_list& gradients) {
    const at::Tensor saved = context->get_saved_variables()[0];
    const bool requires_grad =
        context->saved_data["input_requires_grad"].toBool();
    const auto saved_body = c10::static_intrusive_pointer_cast<SavedBody>(
        context->saved_data["body"].toCapsule());
    const at::Tensor input = saved.detach().requires_grad_(requires_grad);
    at::Tensor output;
    {
      const SavedThreadState thread_state(saved.device());
      const at::AutoGradMode with_grad(true);
      saved_body->autocast.set();
      set_random_state(
          saved.device(), context->saved_data["random"].toTensor());
      output = (*saved_body->body)(input);
    }
    torch::autograd::backward({output}, {gradients[0]});
    return {input.grad(), at::Tensor(), at::Tensor()};
  }

  struct SavedBody : torch::CustomClassHolder {
    SavedBody(std::shared_ptr<Body> the_body, AutocastState state)
        : body(std::move(the_body)), autocast(state) {}
    std::shared_ptr<Body> body;
    AutocastState autocast;
  };
};

}  // namespace

at::Tensor checkpoint(const Body& body, const at::Tensor& input) {
  const auto anchor = at::empty({0}, at::kFloat).requires_grad_();
  return Checkpoint::apply(input, anchor, std::make_shared<Body>(body));
}

}  // namespace transformers
