// SPDX-License-Identifier: Apache-2.0
// Tests which calls are captured, with a fake device that replays graphs on the
// CPU. The tests in `StepRecorderContract` run with every client of the
// recorder.
#include "device/step_recorder.h"

#include <string>

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/variable.h>

#include "accelerate/error.h"
#include "device/differentiable_step.h"
#include "device/fused_blocks.h"
#include "support/fake_device.h"
#include "support/message_of.h"
#include "support/tape_graph.h"

namespace accelerate {
namespace {

using Tensors = StepRecorder::Tensors;

// Captures a call as one graph, as `Accelerator::graph` does.
class WholeStep : public RecorderClient {
 public:
  explicit WholeStep(const at::Tensor& weight) : weight_(weight) {}

  c10::Device device() const override { return weight_.device(); }
  std::optional<std::string> why_eager(const Tensors& /*inputs*/) override {
    return reason;
  }
  std::vector<const void*> addresses() override {
    return {weight_.const_data_ptr()};
  }
  std::shared_ptr<CapturedStep> capture(
      CaptureDevice& device, const Tensors& inputs, const Body& body) override {
    auto captured = std::make_shared<Captured>();
    captured->graph = device.make_graph();
    captured->graph->capture([&] { captured->outputs = body(inputs); });
    return captured;
  }

  std::optional<std::string> reason;

 private:
  struct Captured : CapturedStep {
    Tensors replay() override {
      graph->replay();
      Tensors copies;
      for (const at::Tensor& output : outputs) {
        copies.push_back(output.detach().clone());
      }
      return copies;
    }
    std::unique_ptr<DeviceGraph> graph;
    Tensors outputs;
  };

  at::Tensor weight_;
};

// A function that returns the squared sum of relu(x · w) and its rows. Counts
// the eager calls.
class RecordedFunction {
 public:
  explicit RecordedFunction(
      bool is_differentiable = true, const StepRecorderOptions& options = {})
      : is_differentiable_(is_differentiable) {
    weight.set_requires_grad(is_differentiable);
    if (is_differentiable) {
      client_ = std::make_unique<DifferentiableStep>(Tensors{weight});
    } else {
      client_ = std::make_unique<WholeStep>(weight);
    }
    recorder_ = std::make_unique<StepRecorder>(*client_, options);
  }

  StepRecorder& recorder() { return *recorder_; }
  WholeStep& whole_step() { return dynamic_cast<WholeStep&>(*client_); }
  // A differentiable step consists of two graphs.
  int graphs_per_step() const { return is_differentiable_ ? 2 : 1; }

  Tensors run(const at::Tensor& x, const std::string& key = "") {
    return recorder_->run(key, {x, at::Tensor()}, [&](const Tensors& in) {
      ++body_calls;
      if (fails_while_capturing && gpu.is_capturing()) {
        throw std::runtime_error("this waits for the device\nand more");
      }
      EXPECT_FALSE(in[1].defined());
      const at::Tensor rows = in[0].matmul(weight).relu();
      return Tensors{rows.pow(2).sum(), rows.detach()};
    });
  }

  // Runs a step with backward; returns the loss and the gradient.
  std::pair<double, at::Tensor> step(const at::Tensor& x) {
    weight.mutable_grad().reset();
    const Tensors results = run(x);
    if (!is_differentiable_) {
      return {results[0].item<double>(), at::Tensor()};
    }
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
    if (is_differentiable_) {
      EXPECT_TRUE(gradient.equal(expected_gradient)) << x.sizes();
    }
  }

  FakeDevice gpu{c10::kCPU};
  at::Tensor weight = at::arange(12, at::kDouble).view({3, 4}).sub(5);
  int body_calls = 0;
  bool fails_while_capturing = false;

 private:
  bool is_differentiable_;
  std::unique_ptr<RecorderClient> client_;
  std::unique_ptr<StepRecorder> recorder_;
};

at::Tensor rows(std::int64_t count, double first = 1.0) {
  return at::arange(count * 3, at::kDouble).view({count, 3}).add(first);
}

class StepRecorderContract : public testing::TestWithParam<bool> {};

TEST_P(StepRecorderContract, RunsEagerlyThenCapturesThenReplays) {
  RecordedFunction function(GetParam());
  function.expect_correct(rows(2));
  EXPECT_EQ(function.recorder().num_graphs(), 0);
  function.expect_correct(rows(2, 7));
  EXPECT_EQ(function.recorder().num_graphs(), 1);
  EXPECT_EQ(function.body_calls, 2);

  for (int i = 0; i < 3; ++i) {
    function.expect_correct(rows(2, i));
  }

  EXPECT_EQ(function.body_calls, 2);
  EXPECT_EQ(function.recorder().num_replays(), 4);
  EXPECT_EQ(function.recorder().num_captures(), 1);
  EXPECT_EQ(function.recorder().why_not(), "");
  EXPECT_EQ(TapeGraph::count(), function.graphs_per_step());
}

TEST_P(StepRecorderContract, RunsEagerlyForTheChosenNumberOfCalls) {
  RecordedFunction function(GetParam(), {.warmup_calls = 3});
  for (int i = 0; i < 3; ++i) {
    function.expect_correct(rows(2));
    EXPECT_EQ(function.recorder().num_graphs(), 0);
  }
  function.expect_correct(rows(2));
  EXPECT_EQ(function.recorder().num_graphs(), 1);
}

TEST_P(StepRecorderContract, CapturesEachShapeTypeAndKeySeparately) {
  RecordedFunction function(GetParam());
  for (int round = 0; round < 3; ++round) {
    function.expect_correct(rows(2, round));
    function.expect_correct(rows(5, round));
  }
  EXPECT_EQ(function.recorder().num_graphs(), 2);
  for (int round = 0; round < 2; ++round) {
    const Tensors results = function.run(rows(2), "training");
    if (results[0].requires_grad()) {
      results[0].backward();
    }
  }
  EXPECT_EQ(function.recorder().num_graphs(), 3);
  EXPECT_EQ(function.body_calls, 6);
}

TEST_P(StepRecorderContract, DistinguishesStridesOnRequest) {
  const at::Tensor columns = rows(2).t().contiguous().t();
  for (const bool distinguishes : {false, true}) {
    RecordedFunction function(
        GetParam(), {.distinguishes_strides = distinguishes});
    for (int i = 0; i < 2; ++i) {
      function.expect_correct(rows(2));
      function.expect_correct(columns);
    }
    EXPECT_EQ(function.recorder().num_graphs(), distinguishes ? 2 : 1);
  }
}

TEST_P(StepRecorderContract, LaterCallsDoNotChangeEarlierResults) {
  RecordedFunction function(GetParam());
  function.step(rows(2));
  function.step(rows(2));
  const Tensors kept = function.run(rows(2));
  const at::Tensor before = kept[1].clone();
  const double loss = kept[0].item<double>();
  if (kept[0].requires_grad()) {
    kept[0].backward();
  }

  function.step(rows(2, 100));

  EXPECT_DOUBLE_EQ(kept[0].item<double>(), loss);
  EXPECT_TRUE(kept[1].equal(before));
}

TEST_P(StepRecorderContract, CapturesAtMostMaxGraphs) {
  RecordedFunction function(GetParam());
  constexpr std::int64_t kMax = 32;
  testing::internal::CaptureStderr();
  for (std::int64_t count = 1; count <= kMax + 3; ++count) {
    function.expect_correct(rows(count));
    function.expect_correct(rows(count));
    function.expect_correct(rows(count));
  }
  const std::string output = testing::internal::GetCapturedStderr();

  EXPECT_EQ(function.recorder().num_graphs(), kMax);
  EXPECT_EQ(function.body_calls, 2 * kMax + 3 * 3);
  EXPECT_EQ(
      output,
      "warning: CUDA graphs are off: there are more than 32 combinations of "
      "input shapes; graphs stay on only for the first 32 of them\n");
  function.expect_correct(rows(1, 3));
  EXPECT_EQ(function.body_calls, 2 * kMax + 3 * 3);
}

TEST_P(StepRecorderContract, RunsEagerlyAndWarnsOnceWhenCaptureFails) {
  RecordedFunction function(GetParam());
  function.fails_while_capturing = true;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 4; ++i) {
    function.expect_correct(rows(2, i));
    function.expect_correct(rows(3, i));
  }

  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "warning: CUDA graphs are off: this waits for the device\n");
  EXPECT_EQ(function.recorder().num_graphs(), 0);
  EXPECT_EQ(function.recorder().why_not(), "this waits for the device");
  EXPECT_EQ(TapeGraph::count(), 0);
}

TEST_P(StepRecorderContract, CapturesAgainWhenMemoryMoved) {
  RecordedFunction function(GetParam());
  for (int i = 0; i < 3; ++i) {
    function.step(rows(2));
    function.step(rows(3));
  }
  EXPECT_EQ(TapeGraph::count(), 2 * function.graphs_per_step());

  function.weight.set_data(function.weight.detach().clone().mul(-1));
  function.expect_correct(rows(2));

  EXPECT_EQ(function.recorder().num_graphs(), 0);
  EXPECT_EQ(TapeGraph::count(), 0);
  function.expect_correct(rows(2));
  function.expect_correct(rows(2));
  EXPECT_EQ(function.recorder().num_graphs(), 1);
}

TEST_P(StepRecorderContract, RunsEagerlyWithADisabledPolicy) {
  RecordedFunction function(
      GetParam(), {.policy = {.disabled_reason = "there are 2 processes"}});
  testing::internal::CaptureStderr();
  for (int i = 0; i < 4; ++i) {
    function.expect_correct(rows(2));
  }

  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "note: CUDA graphs are off: there are 2 processes\n");
  EXPECT_EQ(function.recorder().num_graphs(), 0);
  EXPECT_EQ(function.recorder().why_not(), "there are 2 processes");
}

// A recorder inside another recorder would capture the same kernels twice.
TEST_P(StepRecorderContract, RunsEagerlyInsideACaptureAndAnotherRecorder) {
  RecordedFunction function(GetParam());
  for (int i = 0; i < 3; ++i) {
    function.step(rows(2));
  }
  const int before = function.body_calls;
  TapeGraph around;
  around.capture([&] { function.run(rows(2)); });
  EXPECT_EQ(function.body_calls, before + 1);

  WholeStep outer_client(function.weight);
  StepRecorder outer(outer_client);
  outer.run("", {}, [&](const Tensors&) { return function.run(rows(2)); });
  EXPECT_EQ(function.body_calls, before + 2);
}

int refreshes = 0;

// The bf16 copies of parameters, which graphs read, may be out of date.
TEST_P(StepRecorderContract, PreparesFusedBlocksBeforeEachReplay) {
  FusedBlocks blocks = {};
  blocks.before_replay = [] { ++refreshes; };
  RecordedFunction function(GetParam());
  function.gpu.blocks = &blocks;
  refreshes = 0;

  for (int i = 0; i < 5; ++i) {
    function.step(rows(2));
  }

  EXPECT_EQ(refreshes, 4);
}

INSTANTIATE_TEST_SUITE_P(
    Clients,
    StepRecorderContract,
    testing::Values(true, false),
    [](const auto& test) {
      return std::string(test.param ? "differentiable" : "whole");
    });

TEST(StepRecorder, ReportsTheReasonOfTheClientOnce) {
  RecordedFunction function(/*is_differentiable=*/false);
  function.whole_step().reason = "an input is on the CPU";
  testing::internal::CaptureStderr();
  for (int i = 0; i < 4; ++i) {
    function.expect_correct(rows(2));
  }
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "warning: CUDA graphs are off: an input is on the CPU\n");
  EXPECT_EQ(function.recorder().num_graphs(), 0);

  function.whole_step().reason.reset();
  function.expect_correct(rows(2));
  function.expect_correct(rows(2));
  EXPECT_EQ(function.recorder().num_graphs(), 1);
}

TEST(DifferentiableStep, AccumulatesGradients) {
  RecordedFunction function;
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

// The gradient of the weight has 96 bytes.
TEST(DifferentiableStep, UsesAtMostAQuarterOfTheMemory) {
  RecordedFunction function;
  function.gpu.memory_stats.total = 4 * 2 * 96;
  testing::internal::CaptureStderr();
  for (std::int64_t count = 1; count <= 4; ++count) {
    for (int i = 0; i < 3; ++i) {
      function.expect_correct(rows(count));
    }
  }

  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "warning: CUDA graphs are off: capturing another combination of input "
      "shapes would need 96 bytes more for gradients; with the 2 combinations "
      "already captured, that exceeds a quarter of the GPU's memory\n");
  EXPECT_EQ(function.recorder().num_graphs(), 2);
}

TEST(DifferentiableStep, RunsEagerlyWhenParametersHaveHooks) {
  RecordedFunction function;
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

// A replay would overwrite the activations that the pending backward needs.
TEST(DifferentiableStep, RunsEagerlyWhileACallWaitsForItsBackward) {
  RecordedFunction function;
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

TEST(DifferentiableStep, ThrowsOnASecondBackward) {
  RecordedFunction function;
  function.step(rows(2));
  function.step(rows(2));
  const Tensors results = function.run(rows(2));
  results[0].backward({}, /*retain_graph=*/true);

  EXPECT_EQ(
      message_of<StateError>([&] { results[0].backward(); }),
      "backward was called twice for a step that ran as a CUDA graph");
}

TEST(DifferentiableStep, RunsEagerlyWithoutGradients) {
  RecordedFunction function;
  for (int i = 0; i < 3; ++i) {
    function.step(rows(2));
  }
  const int before = function.body_calls;
  {
    const at::NoGradGuard no_grad;
    function.run(rows(2));
  }
  EXPECT_EQ(function.body_calls, before + 1);
}

}  // namespace
}  // namespace accelerate
