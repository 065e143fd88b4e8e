// SPDX-License-Identifier: Apache-2.0
// Programs that must not compile; compile_errors.sh checks the messages.
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
