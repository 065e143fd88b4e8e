// SPDX-License-Identifier: Apache-2.0
// What is captured when, with a fake device that replays on the CPU.
#include "device/graph_cache.h"

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

using Tensors = GraphCache::Tensors;

// The squared sum of relu(x · w), and its rows; counts the eager function.
class CachedFunction {
 public:
  CachedFunction() { weight.set_requires_grad(true); }

  Tensors run(const at::Tensor& x, const std::string& key = "") {
    return cache.run(key, {x, at::Tensor()}, {weight}, [&](const Tensors& in) {
      ++body_calls;
      if (fails_while_capturing && gpu.is_capturing()) {
        throw std::runtime_error("this waits for the device\nand more");
      }
      const at::Tensor rows = in[0].matmul(weight).relu();
      return Tensors{rows.pow(2).sum(), rows.detach()};
    });
  }

  // Runs a step with backward; returns the loss and the gradient.
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

  void expect_correct(const at::Tensor& x) {
    const auto [loss, gradient] = step(x);
    const auto [expected_loss, expected_gradient] = expected(x);
    EXPECT_DOUBLE_EQ(loss, expected_loss) << x.sizes();
    EXPECT_TRUE(gradient.equal(expected_gradient)) << x.sizes();
  }

  FakeDevice gpu{c10::kCPU};
  at::Tensor weight = at::arange(12, at::kDouble).view({3, 4}).sub(5);
  GraphCache cache;
  int body_calls = 0;
  bool fails_while_capturing = false;
};

at::Tensor rows(std::int64_t count, double first = 1.0) {
  return at::arange(count * 3, at::kDouble).view({count, 3}).add(first);
}

TEST(GraphCache, RunsEagerlyThenCapturesThenReplays) {
  CachedFunction function;
  function.expect_correct(rows(2));
  EXPECT_EQ(function.cache.num_graphs(), 0);
  function.expect_correct(rows(2, 7));
  EXPECT_EQ(function.cache.num_graphs(), 1);
  EXPECT_EQ(function.body_calls, 2);

  for (int i = 0; i < 3; ++i) {
    function.expect_correct(rows(2, i));
  }

  EXPECT_EQ(function.body_calls, 2);
  EXPECT_EQ(function.cache.num_replays(), 4);
  EXPECT_EQ(function.cache.why_not(), "");
}

TEST(GraphCache, CapturesEachShapeTypeAndKeySeparately) {
  CachedFunction function;
  for (int round = 0; round < 3; ++round) {
    function.expect_correct(rows(2, round));
    function.expect_correct(rows(5, round));
  }
  EXPECT_EQ(function.cache.num_graphs(), 2);
  for (int round = 0; round < 2; ++round) {
    function.run(rows(2), "training")[0].backward();
  }
  EXPECT_EQ(function.cache.num_graphs(), 3);
  EXPECT_EQ(function.body_calls, 6);
}

TEST(GraphCache, LaterCallsDoNotChangeEarlierResults) {
  CachedFunction function;
  function.step(rows(2));
  function.step(rows(2));
  const Tensors kept = function.run(rows(2));
  const at::Tensor before = kept[1].clone();
  const double loss = kept[0].item<double>();
  kept[0].backward();

  function.step(rows(2, 100));

  EXPECT_DOUBLE_EQ(kept[0].item<double>(), loss);
  EXPECT_TRUE(kept[1].equal(before));
}

TEST(GraphCache, AccumulatesGradients) {
  CachedFunction function;
  for (int i = 0; i < 3; ++i) {
    function.step(rows(2));
  }
  const at::Tensor once = function.expected(rows(2)).second;
  function.weight.mutable_grad().reset();

  function.run(rows(2))[0].backward();
  function.run(rows(2))[0].backward();
  function.run(rows(2))[0].backward();

  EXPECT_TRUE(function.weight.grad().equal(once.mul(3)));
}

TEST(GraphCache, CapturesAtMostMaxGraphs) {
  CachedFunction function;
  constexpr auto kMax = GraphCache::kMaxGraphs;
  testing::internal::CaptureStderr();
  for (std::int64_t count = 1; count <= kMax + 3; ++count) {
    function.expect_correct(rows(count));
    function.expect_correct(rows(count));
    function.expect_correct(rows(count));
  }
  const std::string output = testing::internal::GetCapturedStderr();

  EXPECT_EQ(function.cache.num_graphs(), kMax);
  EXPECT_EQ(function.body_calls, 2 * kMax + 3 * 3);
  EXPECT_EQ(
      output,
      "warning: CUDA graphs are off: there are more than 32 combinations of "
      "input shapes\n");
  function.expect_correct(rows(1, 3));
  EXPECT_EQ(function.body_calls, 2 * kMax + 3 * 3);
}

// The gradient of the weight has 96 bytes.
TEST(GraphCache, UsesAtMostAQuarterOfTheMemory) {
  CachedFunction function;
  function.gpu.memory_stats.total = 4 * 2 * 96;
  testing::internal::CaptureStderr();
  for (std::int64_t count = 1; count <= 4; ++count) {
    for (int i = 0; i < 3; ++i) {
      function.expect_correct(rows(count));
    }
  }

  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "warning: CUDA graphs are off: each combination of input shapes needs 96 "
      "bytes for gradients, but all combinations together may use only a "
      "quarter of the GPU's memory (captured so far: 2)\n");
  EXPECT_EQ(function.cache.num_graphs(), 2);
}

TEST(GraphCache, RunsEagerlyAndWarnsOnceWhenCaptureFails) {
  CachedFunction function;
  function.fails_while_capturing = true;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 4; ++i) {
    function.expect_correct(rows(2, i));
    function.expect_correct(rows(3, i));
  }

  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "warning: CUDA graphs are off: this waits for the device\n");
  EXPECT_EQ(function.cache.num_graphs(), 0);
  EXPECT_EQ(function.cache.why_not(), "this waits for the device");
  EXPECT_EQ(TapeGraph::count(), 0);
}

TEST(GraphCache, RunsEagerlyWhenParametersHaveHooks) {
  CachedFunction function;
  int seen = 0;
  function.weight.register_hook([&](const at::Tensor&) { ++seen; });
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    function.expect_correct(rows(2));
  }

  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "warning: CUDA graphs are off: some parameters have hooks\n");
  EXPECT_EQ(seen, 3);
}

TEST(GraphCache, CapturesAgainWhenParametersMoved) {
  CachedFunction function;
  for (int i = 0; i < 3; ++i) {
    function.step(rows(2));
    function.step(rows(3));
  }
  EXPECT_EQ(TapeGraph::count(), 4);

  function.weight.set_data(function.weight.detach().clone().mul(-1));
  function.expect_correct(rows(2));

  EXPECT_EQ(function.cache.num_graphs(), 0);
  EXPECT_EQ(TapeGraph::count(), 0);
  function.expect_correct(rows(2));
  function.expect_correct(rows(2));
  EXPECT_EQ(function.cache.num_graphs(), 1);
}

// A replay would overwrite the activations that the pending backward needs.
TEST(GraphCache, RunsEagerlyWhileACallWaitsForItsBackward) {
  CachedFunction function;
  function.step(rows(2));
  function.step(rows(2));
  function.weight.mutable_grad().reset();
  const int before = function.body_calls;

  const Tensors first = function.run(rows(2));
  const Tensors second = function.run(rows(2, 50));
  EXPECT_EQ(function.body_calls, before + 1);
  first[0].backward();

  EXPECT_TRUE(function.weight.grad().equal(function.expected(rows(2)).second));
}

TEST(GraphCache, ThrowsOnASecondBackward) {
  CachedFunction function;
  function.step(rows(2));
  function.step(rows(2));
  const Tensors results = function.run(rows(2));
  results[0].backward({}, /*retain_graph=*/true);

  EXPECT_EQ(
      message_of<StateError>([&] { results[0].backward(); }),
      "backward was called twice for a step that ran as a CUDA graph");
}

TEST(GraphCache, RunsEagerlyWithoutGradientsInsideACaptureAndWhilePaused) {
  CachedFunction function;
  for (int i = 0; i < 3; ++i) {
    function.step(rows(2));
  }
  const int before = function.body_calls;
  {
    const at::NoGradGuard no_grad;
    function.run(rows(2));
  }
  EXPECT_EQ(function.body_calls, before + 1);
  {
    const GraphCache::Pause pause;
    function.run(rows(2));
  }
  EXPECT_EQ(function.body_calls, before + 2);
  TapeGraph around;
  around.capture([&] { function.run(rows(2)); });
  EXPECT_EQ(function.body_calls, before + 3);
}

}  // namespace
}  // namespace accelerate
