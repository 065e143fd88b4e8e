// SPDX-License-Identifier: Apache-2.0
// Loops that save periodically, on several ranks.
#include <filesystem>
#include <vector>

#include <gtest/gtest.h>

#include "accelerate/accelerator.h"
#include "checkpoint_directory/checkpoints.h"
#include "support/run_on_ranks.h"
#include "support/temporary_directory.h"
#include "support/training.h"

namespace accelerate {
namespace {

/// Returns the number of checkpoints that three ranks save in four steps if a
/// save is due only on some ranks.
std::size_t saved_with(const std::vector<double>& minutes, bool blocking) {
  const TemporaryDirectory folder;
  run_on_ranks(3, quick(Backend::shm), [&](Group& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    Accelerator accelerator(
        PartialState(group),
        {.project_config = ProjectConfiguration{
             .project_dir = folder.path(),
             .automatic_checkpoint_naming = true}});
    Net net = make_net();
    SGD optimizer(net->parameters(), 0.1);
    accelerator.prepare(net, optimizer);
    auto save = accelerator.save_every(
        {.minutes = minutes[rank], .blocking = blocking});
    for (int step = 0; step < 4; ++step) {
      accelerator.backward(net_loss(net, batch_of(group.rank(), step)));
      optimizer.step();
      optimizer.zero_grad();
      EXPECT_EQ(save(), minutes[0] < 1) << "rank " << rank;
    }
    accelerator.end_training();
  });
  const auto place = folder.path() / "checkpoints";
  return std::filesystem::exists(place) ? list_checkpoints(place).size() : 0;
}

// Clocks differ between ranks and a save needs all ranks, so only the clock of
// rank 0 is used.
TEST(SaveEvery, FollowsOneClockOnAllRanks) {
  for (const bool blocking : {true, false}) {
    EXPECT_EQ(saved_with({1e-9, 1e6, 1e-9}, blocking), 4U);
    EXPECT_EQ(saved_with({1e6, 1e-9, 1e6}, blocking), 0U);
  }
}

}  // namespace
}  // namespace accelerate
