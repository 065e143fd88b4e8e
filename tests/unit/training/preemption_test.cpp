// SPDX-License-Identifier: Apache-2.0
#include "training/preemption.h"

#include <csignal>
#include <cstdlib>

#include <gtest/gtest.h>

namespace accelerate {
namespace {

// Runs in a child process: exits with 0 if the process survives `count` signals
// and has recorded them.
[[noreturn]] void raise_in_child(
    const char* grace_period, int signal, int count) {
  ::setenv("ACCELERATE_GRACE_PERIOD", grace_period, 1);
  install_preemption_handlers();
  for (int i = 0; i < count; ++i) {
    (void)std::raise(signal);
  }
  std::_Exit(preemption_requested() ? 0 : 1);
}

TEST(PreemptionDeathTest, SignalsWithinTheGracePeriodCountOnce) {
  EXPECT_EXIT(raise_in_child("30", SIGTERM, 3), testing::ExitedWithCode(0), "");
}

TEST(PreemptionDeathTest, ASigtermAfterTheGracePeriodKills) {
  EXPECT_EXIT(raise_in_child("0", SIGTERM, 1), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      raise_in_child("0", SIGTERM, 2), testing::KilledBySignal(SIGTERM), "");
}

// Slurm's `--signal=USR1@120` announces the SIGTERM at the time limit.
TEST(PreemptionDeathTest, Sigusr1DoesNotBeginTheGracePeriod) {
  EXPECT_EXIT(
      {
        ::setenv("ACCELERATE_GRACE_PERIOD", "0", 1);
        install_preemption_handlers();
        (void)std::raise(SIGUSR1);
        (void)std::raise(SIGTERM);
        std::_Exit(preemption_requested() ? 0 : 1);
      },
      testing::ExitedWithCode(0),
      "");
}

}  // namespace
}  // namespace accelerate
