// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/staging.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

namespace accelerate {
namespace {

/// Large and small tensors, one that is not contiguous, one that occurs twice,
/// and one without elements.
Part make_part() {
  const at::Tensor tied = at::randn({300, 100});
  Part part;
  part.tensors.push_back(
      {"a",
       {{"large", at::randn({100003})},
        {"small", at::randn({7})},
        {"tied", tied},
        {"transposed", at::randn({200, 300}).t()}}});
  part.tensors.push_back(
      {"b",
       {{"empty", at::empty({0})},
        {"halves", at::randn({70001}).to(at::kHalf)},
        {"number", at::scalar_tensor(3)},
        {"tied", tied}}});
  part.ranges["c"].tensors = {{"range@5", at::randn({50001}).slice(0, 1)}};
  return part;
}

void expect_copied(const Part& copies, const Part& part) {
  for (std::size_t f = 0; f < part.tensors.size(); ++f) {
    for (const auto& [name, tensor] : part.tensors[f].tensors) {
      const at::Tensor& copy = copies.tensors[f].tensors.at(name);
      EXPECT_TRUE(at::equal(copy, tensor)) << name;
      EXPECT_TRUE(tensor.numel() == 0 || !copy.is_alias_of(tensor)) << name;
    }
  }
  const at::Tensor& range = part.ranges.at("c").tensors.at("range@5");
  const at::Tensor& copy = copies.ranges.at("c").tensors.at("range@5");
  EXPECT_TRUE(at::equal(copy, range));
  EXPECT_FALSE(copy.is_alias_of(range));
}

TEST(Staging, CopiesIntoFreshAndIntoReusedMemory) {
  Staging staging;
  for (int round = 0; round < 3; ++round) {
    const Part part = make_part();
    Part copies = part;
    staging.copy_in(copies);
    expect_copied(copies, part);
    EXPECT_EQ(
        copies.tensors[0].tensors.at("tied").const_data_ptr(),
        copies.tensors[1].tensors.at("tied").const_data_ptr());
  }
}

// The copy races with the preparation of the memory, and the result must not
// depend on how far the preparation has come.
TEST(Staging, CopiesIntoMemoryThatIsBeingPrepared) {
  for (int round = 0; round < 20; ++round) {
    Staging staging;
    const Part part = make_part();
    staging.prepare(part);
    Part copies = part;
    staging.copy_in(copies);
    expect_copied(copies, part);
  }
}

}  // namespace
}  // namespace accelerate
