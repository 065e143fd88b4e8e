// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a run without an `Accelerator`.
#include "checkpoint/checkpoint_session.h"

#include <filesystem>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "comm/run_collectively.h"
#include "parallel/strategy.h"
#include "support/run_on_ranks.h"
#include "support/temporary_directory.h"
#include "training/mixed_precision.h"

namespace accelerate {
namespace {

/// A run with one parameter and no optimizer.
struct SessionRun {
  SessionRun(const Group& group, const AcceleratorOptions& options = {})
      : state(group),
        mesh(group),
        strategy(make_strategy(group, {})),
        objects(*strategy),
        precision(options, Environment(), c10::Device(c10::kCPU)),
        training({state, mesh, *strategy, objects, precision}, {}),
        session({state, mesh, objects, training}, options) {
    PreparedModel model;
    model.parameters = {{"weight"}, {weight}};
    objects.add_model(std::move(model));
  }

  at::Tensor weight = at::full({3}, 1.5);
  PartialState state;
  Mesh mesh;
  std::unique_ptr<Strategy> strategy;
  PreparedObjects objects;
  MixedPrecision precision;
  TrainingStep training;
  CheckpointSession session;
};

// Makes the same calls as `CheckpointSession::save` in the process group of the
// run, but no calls in the process group of the writer.
void take_part_in_collecting(const Group& group) {
  run_collectively(group, "", [] {});
  static_cast<void>(group.gather_object({Json(false)}));
}

TEST(CheckpointSession, RestoresWhatItSaved) {
  const TemporaryDirectory folder;
  run_on_ranks(2, quick(Backend::shm), [&](Group& group) {
    SessionRun run(group);
    run.training.set_updates(7);
    run.session.save(folder.path() / "saved", {});
    run.weight.fill_(0);
    run.training.set_updates(0);

    const LoadStateReport report =
        run.session.load(folder.path() / "saved", {});

    EXPECT_EQ(report.step, 7);
    EXPECT_EQ(run.training.updates(), 7);
    EXPECT_TRUE(run.weight.equal(at::full({3}, 1.5)));
  });
}

// After a `MismatchError` the process group is still usable, so the session
// must keep its writer: creating another writer is collective, and the other
// rank would not take part.
TEST(CheckpointSession, KeepsTheWriterAfterAMismatch) {
  const TemporaryDirectory folder;
  run_on_ranks(2, quick(Backend::shm), [&](Group& group) {
    SessionRun run(group);
    run.session.save(folder.path() / "first", {});
    if (group.rank() == 0) {
      EXPECT_THROW(
          run.session.save(folder.path() / "second", {}), MismatchError);
      EXPECT_TRUE(run.session.has_writer());
    } else {
      // The ranks make different calls in the process group of the writer.
      take_part_in_collecting(group);
      Destination numbered;
      numbered.parent = folder.path();
      numbered.numbered = true;
      CheckpointWriter& writer = run.session.writer();
      writer.choose_number(numbered);
      EXPECT_THROW(writer.choose_number(numbered), MismatchError);
    }

    const auto saved = run.session.save(folder.path() / "third", {});

    EXPECT_TRUE(std::filesystem::exists(saved));
  });
}

// A session that has lost its process group must not use its writer again.
TEST(CheckpointSession, DropsTheWriterAfterAFailureOfTheProcessGroup) {
  const TemporaryDirectory folder;
  run_on_ranks(2, quick(Backend::shm), [&](Group& group) {
    SessionRun run(group);
    run.session.save(folder.path() / "first", {});
    if (group.rank() == 0) {
      take_part_in_collecting(group);
    } else {
      EXPECT_THROW(
          run.session.save(folder.path() / "second", {}), DistributedError);
      EXPECT_FALSE(run.session.has_writer());
    }
  });
}

}  // namespace
}  // namespace accelerate
