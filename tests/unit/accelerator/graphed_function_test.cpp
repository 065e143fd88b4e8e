// SPDX-License-Identifier: Apache-2.0
// `Accelerator::graph` and the record policy of `prepare`, with a fake device.
// On the CPU, the device replays graphs.
#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include "accelerate/accelerator.h"
#include "accelerate/accelerator_nests.h"
#include "accelerate/group.h"
#include "accelerate/partial_state.h"
#include "accelerate/recordable_module.h"
#include "support/fake_device.h"

namespace accelerate {
namespace {

PartialState state_on(c10::DeviceType device) {
  return PartialState(Group(), c10::Device(device));
}

TEST(GraphedFunction, ReplaysAfterTwoEagerCalls) {
  const FakeDevice gpu(c10::kCPU);
  Accelerator accelerator(state_on(c10::kCPU), {});
  int calls = 0;
  auto twice = accelerator.graph([&](const at::Tensor& x) {
    ++calls;
    return x.mul(2);
  });

  std::vector<at::Tensor> results;
  for (int i = 0; i < 6; ++i) {
    results.push_back(twice(at::full({3}, static_cast<double>(i))));
  }

  EXPECT_EQ(calls, 3);  // Two eager calls and the capture.
  EXPECT_EQ(twice.core().num_graphs(), 1);
  EXPECT_EQ(twice.core().num_replays(), 3);
  EXPECT_EQ(twice.core().why_not(), "");
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(results[i].sum().item<double>(), 6.0 * i) << i;
  }
}

// The body may depend on the strides of its inputs.
TEST(GraphedFunction, CapturesOtherStridesSeparately) {
  const FakeDevice gpu(c10::kCPU);
  Accelerator accelerator(state_on(c10::kCPU), {});
  auto first_stride = accelerator.graph(
      [](const at::Tensor& x) { return at::full({}, x.stride(0)); },
      {.warmup_steps = 1});
  const at::Tensor rows = at::ones({2, 3});
  const at::Tensor columns = at::ones({3, 2}).t();

  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(first_stride(rows).item<std::int64_t>(), 3);
    EXPECT_EQ(first_stride(columns).item<std::int64_t>(), 1);
  }

  EXPECT_EQ(first_stride.core().num_graphs(), 2);
}

TEST(GraphedFunction, WarnsOnceWhenItCannotCapture) {
  Accelerator accelerator(state_on(c10::kCPU), {});
  auto twice = accelerator.graph([](const at::Tensor& x) { return x.mul(2); });
  testing::internal::CaptureStderr();
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(twice(at::ones({1})).item<double>(), 2.0);
  }

  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "warning: CUDA graphs are off: there is no GPU\n");
  EXPECT_EQ(twice.core().why_not(), "there is no GPU");
}

TEST(GraphedFunction, CapturesNoStepThatLeavesGradients) {
  const FakeDevice gpu(c10::kCPU);
  Accelerator accelerator(state_on(c10::kCPU), {});
  struct Net : torch::nn::Module {
    at::Tensor weight = register_parameter("weight", at::ones({2}));
  };
  auto net = std::make_shared<Net>();
  accelerator.prepare(net);
  auto step = accelerator.graph(
      [&](const at::Tensor& x) {
        const at::Tensor loss = net->weight.mul(x).sum();
        accelerator.backward(loss);
        return loss.detach();
      },
      {.warmup_steps = 1});
  testing::internal::CaptureStderr();
  step(at::ones({2}));
  net->zero_grad();
  step(at::ones({2}));

  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "warning: CUDA graphs are off: the step leaves gradients behind; call "
      "`zero_grad` inside the step\n");
  EXPECT_EQ(step.core().num_graphs(), 0);
  EXPECT_TRUE(net->weight.grad().equal(at::ones({2})));
  EXPECT_EQ(accelerator.step(), 2);
}

struct RecordableNet : torch::nn::Module, RecordableModule {
  void set_record_policy(const RecordPolicy& policy) override {
    policies.push_back(policy);
  }
  at::Tensor weight = register_parameter(
      "weight", at::empty({2}, at::TensorOptions(at::kMeta)));
  std::vector<RecordPolicy> policies;
};

TEST(RecordPolicy, IsGivenToModulesInPrepare) {
  const FakeDevice gpu(c10::kMeta);
  auto net = std::make_shared<RecordableNet>();
  for (const bool record_steps : {true, false}) {
    net->policies.clear();
    {
      Accelerator accelerator(
          state_on(c10::kMeta), {.record_steps = record_steps});
      accelerator.prepare(net);
      ASSERT_FALSE(net->policies.empty());
      EXPECT_EQ(net->policies.back().enabled, record_steps);
      EXPECT_EQ(net->policies.back().disabled_reason, "");
    }
    EXPECT_FALSE(net->policies.back().enabled);
  }
}

}  // namespace
}  // namespace accelerate
