// SPDX-License-Identifier: Apache-2.0
// Numbers on a GPU that are logged without waiting for the GPU.
#include <limits>

#include "gpu/gpu.h"
#include "unit/tracking/collecting_tracker.h"

namespace accelerate {
namespace {

using testing::ElementsAre;
using testing::VariantWith;

// Logs values in one call and returns what the tracker received.
std::vector<TrackedValue> logged(const LogValues& values) {
  auto tracker = std::make_shared<CollectingTracker>();
  Accelerator accelerator(single_process_on(gpu()), {.log_with = {tracker}});
  accelerator.init_trackers("project");
  accelerator.log(values);
  accelerator.end_training();
  std::vector<TrackedValue> received;
  for (const TrackedEntry& entry : tracker->logged.at(0).entries) {
    received.push_back(entry.value);
  }
  return received;
}

at::Tensor on_gpu(const at::Scalar& value, at::ScalarType type) {
  return at::full({}, value, at::TensorOptions(gpu()).dtype(type));
}

TEST(GpuTracking, KeepsTheKindOfEachNumber) {
  ACCELERATE_NEEDS_GPU();
  constexpr std::int64_t kLarge = (std::int64_t{1} << 53) + 1;

  EXPECT_THAT(
      logged(
          {{"f64", on_gpu(0.1, at::kDouble)},
           {"f32", on_gpu(0.5, at::kFloat)},
           {"f16", on_gpu(-1.5, at::kHalf)},
           {"bf16", on_gpu(3.0, at::kBFloat16)},
           {"i64", on_gpu(kLarge, at::kLong)},
           {"i32", on_gpu(-7, at::kInt)},
           {"i16", on_gpu(-300, at::kShort)},
           {"i8", on_gpu(-8, at::kChar)},
           {"u8", on_gpu(200, at::kByte)},
           {"bool", on_gpu(true, at::kBool)},
           {"infinity",
            on_gpu(-std::numeric_limits<double>::infinity(), at::kFloat)}}),
      ElementsAre(
          VariantWith<double>(0.1),
          VariantWith<double>(0.5),
          VariantWith<double>(-1.5),
          VariantWith<double>(3.0),
          VariantWith<std::int64_t>(kLarge),
          VariantWith<std::int64_t>(-7),
          VariantWith<std::int64_t>(-300),
          VariantWith<std::int64_t>(-8),
          VariantWith<std::int64_t>(200),
          VariantWith<bool>(true),
          VariantWith<double>(-std::numeric_limits<double>::infinity())));
}

TEST(GpuTracking, ReadsElementsOfTensorsAndManyOfThem) {
  ACCELERATE_NEEDS_GPU();
  const at::Tensor numbers = at::arange(200, at::TensorOptions(gpu()));
  LogValues values;
  for (std::int64_t i = 0; i < 200; ++i) {
    values.push_back({"key/" + std::to_string(i), numbers[i]});
  }

  const std::vector<TrackedValue> received = logged(values);

  ASSERT_EQ(received.size(), 200U);
  for (std::int64_t i = 0; i < 200; ++i) {
    EXPECT_THAT(
        received[static_cast<std::size_t>(i)], VariantWith<std::int64_t>(i));
  }
}

TEST(GpuTracking, ReadsTheValueAtTheTimeOfTheCall) {
  ACCELERATE_NEEDS_GPU();
  auto tracker = std::make_shared<CollectingTracker>();
  Accelerator accelerator(single_process_on(gpu()), {.log_with = {tracker}});
  accelerator.init_trackers("project");
  const at::Tensor loss = on_gpu(1.0, at::kFloat);
  for (int i = 0; i < 20; ++i) {
    accelerator.log({{"loss", loss}});
    loss.mul_(2);
  }
  accelerator.end_training();

  ASSERT_EQ(tracker->logged.size(), 20U);
  for (std::size_t i = 0; i < 20; ++i) {
    EXPECT_THAT(
        tracker->logged[i].entries.at(0).value,
        VariantWith<double>(static_cast<double>(1 << i)));
  }
}

}  // namespace
}  // namespace accelerate
