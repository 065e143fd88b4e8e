// SPDX-License-Identifier: Apache-2.0
#include "state/mesh.h"

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "support/message_of.h"
#include "support/run_on_ranks.h"

namespace accelerate {
namespace {

TEST(Mesh, OfOneRankHasOneDataRank) {
  const Mesh mesh;

  EXPECT_EQ(mesh.data_rank(), 0);
  EXPECT_EQ(mesh.data_size(), 1);
  EXPECT_EQ(mesh.data_group().size(), 1);
}

TEST(Mesh, SpansAllRanksWithTheAxisReplicate) {
  run_on_ranks(3, quick(Backend::fake), [](const Group& group) {
    const Mesh mesh(group);

    ASSERT_EQ(mesh.axes().size(), 1U);
    EXPECT_EQ(mesh.axis("replicate").size, 3);
    EXPECT_EQ(mesh.axis("replicate").rank, group.rank());
    EXPECT_EQ(mesh.data_rank(), group.rank());
    EXPECT_EQ(mesh.data_size(), 3);
    EXPECT_EQ(mesh.data_group().rank(), group.rank());
  });
}

TEST(Mesh, CountsTheDevicesOfARankApartFromTheRanks) {
  const Mesh mesh(Group(), 4);

  EXPECT_EQ(mesh.data_size(), 1);
  EXPECT_EQ(mesh.devices_per_rank(), 4);
  EXPECT_EQ(mesh.data_parallel_size(), 4);
}

TEST(Mesh, NamesItsAxesIfOneIsMissing) {
  EXPECT_EQ(
      message_of<ArgumentError>(
          [] { static_cast<void>(Mesh().axis("shard")); }),
      "the mesh has no axis `shard`");
}

}  // namespace
}  // namespace accelerate
