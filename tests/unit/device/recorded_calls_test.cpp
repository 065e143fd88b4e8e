// SPDX-License-Identifier: Apache-2.0
// What is recorded when, with a device that plays back on the CPU.
#include "device/recorded_calls.h"

#include <string>

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/variable.h>

#include "accelerate/error.h"
#include "support/fake_device.h"
#include "support/message_of.h"
#include "support/tape_graph.h"

namespace accelerate {
namespace {

using Tensors = RecordedCalls::Tensors;

// relu(x · w) summed, and its rows; counts how often it is really called.
class Calls {
 public:
  Calls() { weight.set_requires_grad(true); }

  Tensors run(const at::Tensor& x, const std::string& key = "") {
    return calls.run(key, {x, at::Tensor()}, {weight}, [&](const Tensors& in) {
      ++bodies;
      if (fails_while_recording && gpu.is_recording()) {
        throw std::runtime_error("this waits for the device\nand more");
      }
      const at::Tensor rows = in[0].matmul(weight).relu();
      return Tensors{rows.pow(2).sum(), rows.detach()};
    });
  }

  // The loss of a step with its backward, and the gradient.
  std::pair<double, at::Tensor> step(const at::Tensor& x) {
    weight.mutable_grad().reset();
    const Tensors results = run(x);
    results[0].backward();
    return {results[0].item<double>(), weight.grad().clone()};
  }

  std::pair<double, at::Tensor> expected(const at::Tensor& x) const {
    const at::Tensor copy = weight.detach().clone().set_requires_grad(true);
    const at::Tensor loss = x.matmul(copy).relu().pow(2).sum();
    loss.backward();
    return {loss.item<double>(), copy.grad()};
  }

  void expect_right(const at::Tensor& x) {
    const auto [loss, gradient] = step(x);
    const auto [right_loss, right_gradient] = expected(x);
    EXPECT_DOUBLE_EQ(loss, right_loss) << x.sizes();
    EXPECT_TRUE(gradient.equal(right_gradient)) << x.sizes();
  }

  FakeDevice gpu{c10::kCPU};
  at::Tensor weight = at::arange(12, at::kDouble).view({3, 4}).sub(5);
  RecordedCalls calls;
  int bodies = 0;
  bool fails_while_recording = false;
};

at::Tensor rows(std::int64_t count, double first = 1.0) {
  return at::arange(count * 3, at::kDouble).view({count, 3}).add(first);
}

TEST(RecordedCalls, RunsThenRecordsThenPlaysBack) {
  Calls calls;
  calls.expect_right(rows(2));
  EXPECT_EQ(calls.calls.num_recordings(), 0);
  calls.expect_right(rows(2, 7));
  EXPECT_EQ(calls.calls.num_recordings(), 1);
  EXPECT_EQ(calls.bodies, 2);

  for (int i = 0; i < 3; ++i) {
    calls.expect_right(rows(2, i));
  }

  EXPECT_EQ(calls.bodies, 2);
  EXPECT_EQ(calls.calls.num_replays(), 4);
  EXPECT_EQ(calls.calls.why_not(), "");
}

TEST(RecordedCalls, EachShapeTypeAndKeyHasItsOwn) {
  Calls calls;
  for (int round = 0; round < 3; ++round) {
    calls.expect_right(rows(2, round));
    calls.expect_right(rows(5, round));
  }
  EXPECT_EQ(calls.calls.num_recordings(), 2);
  for (int round = 0; round < 2; ++round) {
    calls.run(rows(2), "training")[0].backward();
  }
  EXPECT_EQ(calls.calls.num_recordings(), 3);
  EXPECT_EQ(calls.bodies, 6);
}

TEST(RecordedCalls, ResultsBelongToTheCaller) {
  Calls calls;
  calls.step(rows(2));
  calls.step(rows(2));
  const Tensors kept = calls.run(rows(2));
  const at::Tensor before = kept[1].clone();
  const double loss = kept[0].item<double>();
  kept[0].backward();

  calls.step(rows(2, 100));

  EXPECT_DOUBLE_EQ(kept[0].item<double>(), loss);
  EXPECT_TRUE(kept[1].equal(before));
}

TEST(RecordedCalls, GradientsAddUp) {
  Calls calls;
  for (int i = 0; i < 3; ++i) {
    calls.step(rows(2));
  }
  const at::Tensor once = calls.expected(rows(2)).second;
  calls.weight.mutable_grad().reset();

  calls.run(rows(2))[0].backward();
  calls.run(rows(2))[0].backward();
  calls.run(rows(2))[0].backward();

  EXPECT_TRUE(calls.weight.grad().equal(once.mul(3)));
}

TEST(RecordedCalls, NoMoreThanTheyMayBe) {
  Calls calls;
  constexpr auto kMost = RecordedCalls::kMostRecordings;
  testing::internal::CaptureStderr();
  for (std::int64_t count = 1; count <= kMost + 3; ++count) {
    calls.expect_right(rows(count));
    calls.expect_right(rows(count));
    calls.expect_right(rows(count));
  }
  const std::string said = testing::internal::GetCapturedStderr();

  EXPECT_EQ(calls.calls.num_recordings(), kMost);
  EXPECT_EQ(calls.bodies, 2 * kMost + 3 * 3);
  EXPECT_EQ(
      said,
      "warning: steps are not recorded: there are more than 32 combinations of "
      "shapes\n");
  calls.expect_right(rows(1, 3));
  EXPECT_EQ(calls.bodies, 2 * kMost + 3 * 3);
}

// A gradient of the weight is 96 bytes.
TEST(RecordedCalls, NoMoreThanAQuarterOfTheMemory) {
  Calls calls;
  calls.gpu.room.total = 4 * 2 * 96;
  testing::internal::CaptureStderr();
  for (std::int64_t count = 1; count <= 4; ++count) {
    for (int i = 0; i < 3; ++i) {
      calls.expect_right(rows(count));
    }
  }

  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "warning: steps are not recorded: with 96 bytes of gradients for each, "
      "more "
      "than 2 combinations of shapes would take over a quarter of the GPU's "
      "memory\n");
  EXPECT_EQ(calls.calls.num_recordings(), 2);
}

TEST(RecordedCalls, WhatCannotBeRecordedRunsAndIsSaidOnce) {
  Calls calls;
  calls.fails_while_recording = true;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 4; ++i) {
    calls.expect_right(rows(2, i));
    calls.expect_right(rows(3, i));
  }

  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "warning: steps are not recorded: this waits for the device\n");
  EXPECT_EQ(calls.calls.num_recordings(), 0);
  EXPECT_EQ(calls.calls.why_not(), "this waits for the device");
  EXPECT_EQ(TapeGraph::count(), 0);
}

TEST(RecordedCalls, HooksOfParametersAreCalledOnce) {
  Calls calls;
  int seen = 0;
  calls.weight.register_hook([&](const at::Tensor&) { ++seen; });
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    calls.expect_right(rows(2));
  }

  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "warning: steps are not recorded: parameters have hooks\n");
  EXPECT_EQ(seen, 3);
}

TEST(RecordedCalls, ParametersThatMovedAreRecordedAnew) {
  Calls calls;
  for (int i = 0; i < 3; ++i) {
    calls.step(rows(2));
    calls.step(rows(3));
  }
  EXPECT_EQ(TapeGraph::count(), 4);

  calls.weight.set_data(calls.weight.detach().clone().mul(-1));
  calls.expect_right(rows(2));

  EXPECT_EQ(calls.calls.num_recordings(), 0);
  EXPECT_EQ(TapeGraph::count(), 0);
  calls.expect_right(rows(2));
  calls.expect_right(rows(2));
  EXPECT_EQ(calls.calls.num_recordings(), 1);
}

// What forward leaves for backward would be overwritten.
TEST(RecordedCalls, ACallWhileOneWaitsForItsBackwardRuns) {
  Calls calls;
  calls.step(rows(2));
  calls.step(rows(2));
  calls.weight.mutable_grad().reset();
  const int before = calls.bodies;

  const Tensors first = calls.run(rows(2));
  const Tensors second = calls.run(rows(2, 50));
  EXPECT_EQ(calls.bodies, before + 1);
  first[0].backward();

  EXPECT_TRUE(calls.weight.grad().equal(calls.expected(rows(2)).second));
}

TEST(RecordedCalls, ASecondBackwardIsRefused) {
  Calls calls;
  calls.step(rows(2));
  calls.step(rows(2));
  const Tensors results = calls.run(rows(2));
  results[0].backward({}, /*retain_graph=*/true);

  EXPECT_EQ(
      message_of<StateError>([&] { results[0].backward(); }),
      "backward a second time through a step that the device recorded");
}

TEST(RecordedCalls, RunsWithoutGradientsInsideARecordingAndInAPause) {
  Calls calls;
  for (int i = 0; i < 3; ++i) {
    calls.step(rows(2));
  }
  const int before = calls.bodies;
  {
    const at::NoGradGuard no_grad;
    calls.run(rows(2));
  }
  EXPECT_EQ(calls.bodies, before + 1);
  {
    const RecordedCalls::Pause pause;
    calls.run(rows(2));
  }
  EXPECT_EQ(calls.bodies, before + 2);
  TapeGraph around;
  around.capture([&] { calls.run(rows(2)); });
  EXPECT_EQ(calls.bodies, before + 3);
}

}  // namespace
}  // namespace accelerate
