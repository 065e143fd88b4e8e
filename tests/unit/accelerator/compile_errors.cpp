// SPDX-License-Identifier: Apache-2.0
// `prepare` and other templates refuse unsuitable arguments. compile_errors.sh
// compiles each of these cases and looks for the text in the error message:
//
// refused CASE_UNKNOWN: prepare takes torch::nn modules (also holders,
// shared_ptr refused CASE_LIBTORCH_SCHEDULER: with accelerate::adapt() first
// refused CASE_NO_ARGUMENT: calls the function with one argument
#include <memory>
#include <string>

#include <accelerate/accelerator.h>
#include <accelerate/lr_scheduler.h>
#include <accelerate/memory.h>

namespace torch::nn {
class Module {};
}  // namespace torch::nn
namespace torch::optim {
class LRScheduler {};
}  // namespace torch::optim

int main() {
  accelerate::Accelerator accelerator;
#if defined(CASE_UNKNOWN)
  std::string text;
  accelerator.prepare(text);
#elif defined(CASE_LIBTORCH_SCHEDULER)
  torch::optim::LRScheduler scheduler;
  accelerator.prepare(scheduler);
#elif defined(CASE_NO_ARGUMENT)
  accelerate::find_executable_batch_size([] {});
#else
  auto model = std::make_shared<torch::nn::Module>();
  accelerator.prepare(model, *model);
#endif
}
