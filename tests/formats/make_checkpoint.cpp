// SPDX-License-Identifier: Apache-2.0
// Writes the golden checkpoints in the current format, with two ranks. There
// are three micro-steps, so the last checkpoint is saved in the middle of
// gradient accumulation.
//
//     build/bin/tests/make_checkpoint tests/formats/checkpoints/1.0
#include <iostream>

#include "golden_run.h"
#include "support/run_on_ranks.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: make_checkpoint <folder>\n";
    return 2;
  }
  accelerate::run_on_ranks(
      2,
      accelerate::quick(accelerate::Backend::shm),
      [&](accelerate::Group& group) {
        accelerate::GoldenRun run(accelerate::PartialState(group), argv[1]);
        run.train(3);
      });
  return 0;
}
