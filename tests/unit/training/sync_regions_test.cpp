// SPDX-License-Identifier: Apache-2.0
#include "training/sync_regions.h"

#include <gtest/gtest.h>

#include <torch/nn/module.h>

namespace accelerate {
namespace {

TEST(SyncRegions, SynchronizeWhenAGroupIsComplete) {
  SyncRegions regions;

  EXPECT_EQ(regions.next(true, /*each_batch=*/false), Sync::now);
  EXPECT_EQ(regions.next(false, /*each_batch=*/false), Sync::later);
  EXPECT_EQ(regions.next(false, /*each_batch=*/true), Sync::hidden);
}

TEST(SyncRegions, DoNotSynchronizeInsideNoSync) {
  SyncRegions regions;
  regions.begin_no_sync();

  EXPECT_EQ(regions.next(true, /*each_batch=*/true), Sync::visible);
  EXPECT_EQ(regions.next(false, /*each_batch=*/true), Sync::later);

  regions.end_no_sync();
  EXPECT_EQ(regions.next(true, /*each_batch=*/true), Sync::now);
}

TEST(SyncRegions, SynchronizeOnceAfterATrigger) {
  SyncRegions regions;
  regions.begin_no_sync();
  regions.trigger();

  EXPECT_EQ(regions.next(true, /*each_batch=*/false), Sync::now);
  EXPECT_EQ(regions.next(true, /*each_batch=*/false), Sync::visible);
}

TEST(SyncRegions, ApplyToOneModel) {
  const torch::nn::Module local;
  const torch::nn::Module other;
  SyncRegions regions;
  regions.begin_no_sync(local);

  const Sync sync = regions.next(true, /*each_batch=*/false);

  EXPECT_EQ(regions.sync_of(&local, sync), Sync::visible);
  EXPECT_EQ(regions.sync_of(&other, sync), Sync::now);

  regions.trigger();
  EXPECT_EQ(regions.sync_of(&local, regions.next(true, false)), Sync::now);
}

// In a `no_sync` region, `.grad` may hold only a part of the gradient.
TEST(SyncRegions, UpdateLocallyOnlyInLocalTraining) {
  SyncRegions regions;
  regions.begin_no_sync();
  EXPECT_FALSE(regions.is_update(Sync::visible));

  regions.begin_local_training();
  EXPECT_TRUE(regions.is_update(Sync::visible));

  regions.end_local_training();
  EXPECT_FALSE(regions.is_update(Sync::visible));
  EXPECT_TRUE(regions.is_update(Sync::now));
}

}  // namespace
}  // namespace accelerate
