// SPDX-License-Identifier: Apache-2.0
// Tests the order in which the gradients of several GPUs are reduced, with a
// fake for NCCL.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "comm/group_backends.h"
#include "parallel/reducer.h"
#include "support/fake_device.h"
#include "support/fake_device_group.h"
#include "support/message_of.h"
#include "support/run_on_ranks.h"

namespace accelerate {
namespace {

using testing::ElementsAre;

constexpr int kLayers = 3;

// Training with one bucket per layer. The layers have different sizes, so that
// the log identifies them.
class DeviceTraining {
 public:
  DeviceTraining(Group& group, const FakeDevice& gpu)
      : reducer_(group, parameters_of(group, gpu), {.buckets = one_layer()}),
        gpu_(gpu),
        rank_(group.rank()) {}

  void step() {
    at::Tensor x = at::ones({16, 16}, at::TensorOptions(c10::kMeta));
    gpu_.add_to_log(rank_, "step");
    reducer_.begin(Sync::now);
    for (const at::Tensor& weight : reducer_.parameters().tensors) {
      x = x.mul(weight.sum()).sin();
    }
    x.sum().backward();
    gpu_.add_to_log(rank_, "end");
    reducer_.end();
  }

  const NamedTensors& parameters() const { return reducer_.parameters(); }

 private:
  static BucketOptions one_layer() {
    BucketOptions options;
    options.bytes = 1;
    options.first_bytes = 1;
    return options;
  }

  static NamedTensors parameters_of(const Group& group, const FakeDevice& gpu) {
    NamedTensors result;
    for (int layer = 0; layer < kLayers; ++layer) {
      at::Tensor weight =
          at::zeros({16, layer + 1}, at::TensorOptions(c10::kMeta));
      weight.set_requires_grad(true);
      weight.register_hook(
          [&gpu, layer, rank = group.rank()](const at::Tensor&) {
            gpu.add_to_log(rank, "gradient " + std::to_string(layer));
          });
      result.names.push_back("layer" + std::to_string(layer));
      result.tensors.push_back(std::move(weight));
    }
    return result;
  }

  Reducer reducer_;
  const FakeDevice& gpu_;
  int rank_;
};

GroupOptions one_gpu_per_rank() {
  GroupOptions options = quick(Backend::nccl);
  options.device = c10::Device(c10::kMeta, 0);
  return options;
}

std::vector<std::string> lines_of_step(
    const std::vector<std::string>& log, int number) {
  std::vector<std::string> lines;
  int step = 0;
  for (const std::string& line : log) {
    step += line == "step" ? 1 : 0;
    if (step == number && line != "step") {
      lines.push_back(line);
    }
  }
  return lines;
}

// The first backward pass records the order. After that, a bucket is reduced as
// soon as its gradients and the earlier buckets are ready, while the backward
// pass still runs; nothing waits before its end.
TEST(DeviceReducer, ReducesBucketsInOneOrderDuringBackward) {
  const FakeDevice gpu(c10::kMeta);

  run_on_ranks(2, one_gpu_per_rank(), [&](Group& group) {
    DeviceTraining training(group, gpu);
    training.step();
    group.barrier();
    training.step();
    EXPECT_TRUE(training.parameters().tensors[0].grad().is_meta());
    group.barrier();
  });

  for (const int rank : {0, 1}) {
    EXPECT_THAT(
        lines_of_step(gpu.log(rank), 1),
        ElementsAre(
            "gradient 2",
            "gradient 1",
            "gradient 0",
            "end",
            "allreduce 48",
            "allreduce 32",
            "allreduce 16",
            "wait 48",
            "wait 32",
            "wait 16"))
        << "rank " << rank;
    const auto second = lines_of_step(gpu.log(rank), 2);
    std::vector<std::string> communication;
    for (const std::string& line : second) {
      if (line.starts_with("allreduce") || line.starts_with("wait")) {
        communication.push_back(line);
      }
    }
    EXPECT_THAT(
        communication,
        ElementsAre(
            "allreduce 48",
            "allreduce 32",
            "allreduce 16",
            "wait 48",
            "wait 32",
            "wait 16"))
        << "rank " << rank;
  }
}

// A single rank never waits for other ranks, so the order is exact.
TEST(DeviceReducer, StartsABucketBeforeTheNextGradientIsReady) {
  const FakeDevice gpu(c10::kMeta);

  run_on_ranks(1, one_gpu_per_rank(), [&](Group& group) {
    DeviceTraining training(group, gpu);
    training.step();
    training.step();
  });

  EXPECT_THAT(
      lines_of_step(gpu.log(0), 2),
      ElementsAre(
          "gradient 2",
          "allreduce 48",
          "gradient 1",
          "allreduce 32",
          "gradient 0",
          "allreduce 16",
          "end",
          "wait 48",
          "wait 32",
          "wait 16",
          "shutdown"));
}

// The communicator breaks after the ranks have agreed on the backward pass.
TEST(DeviceReducer, ABrokenCommunicatorFailsTheBackward) {
  const FakeDevice gpu(c10::kMeta);

  run_on_ranks(1, one_gpu_per_rank(), [&](Group& group) {
    DeviceTraining training(group, gpu);
    training.step();
    dynamic_cast<FakeDeviceGroup&>(*GroupBackends::device(group))
        .break_with("unhandled cuda error");

    EXPECT_EQ(
        message_of<DistributedError>([&] { training.step(); }),
        "backward #0: rank 0 lost the connection to another rank: unhandled "
        "cuda error");
  });

  EXPECT_EQ(gpu.log(0).back(), "abort");
}

}  // namespace
}  // namespace accelerate
