// SPDX-License-Identifier: Apache-2.0
// Checkpoints of a run without an `Accelerator`.
#include "checkpoint/checkpoint_session.h"

#include <filesystem>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "accelerate/optim.h"
#include "accelerate/optimizer_state.h"
#include "comm/run_collectively.h"
#include "parallel/strategy.h"
#include "support/run_on_ranks.h"
#include "support/temporary_directory.h"
#include "training/mixed_precision.h"

namespace accelerate {
namespace {

/// A run with one parameter and no optimizer.
struct SessionRun {
  explicit SessionRun(
      const Group& group,
      const AcceleratorOptions& options = {},
      std::unique_ptr<Strategy> other_strategy = nullptr)
      : state(group),
        mesh(group),
        strategy(
            other_strategy ? std::move(other_strategy)
                           : make_strategy(group, {})),
        objects(*strategy),
        precision(options, Environment(), c10::Device(c10::kCPU)),
        training({state, mesh, *strategy, objects, precision}, {}),
        session({state, mesh, *strategy, objects, training}, options) {
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

/// Two ranks, each of which owns half of every parameter.
class Halves : public Strategy {
 public:
  explicit Halves(const Group& group)
      : rank_(group.rank()), inner_(make_strategy(group, {})) {}

  void replicate(
      const NamedTensors& parameters, const NamedTensors& buffers) override {
    inner_->replicate(parameters, buffers);
  }
  void broadcast(const std::vector<at::Tensor>& tensors, int from) override {
    inner_->broadcast(tensors, from);
  }
  std::unique_ptr<GradientPath> make_path(NamedTensors trainable) override {
    return inner_->make_path(std::move(trainable));
  }
  void begin_backward(std::vector<Participant> participants) override {
    inner_->begin_backward(std::move(participants));
  }
  void end_backward() override { inner_->end_backward(); }
  void fail_backward() noexcept override { inner_->fail_backward(); }
  void join_backward(const std::vector<GradientPath*>& paths) override {
    inner_->join_backward(paths);
  }
  std::shared_ptr<OperatorCollectives> operator_collectives() override {
    return inner_->operator_collectives();
  }
  FlatRange owned_range(const at::Tensor& parameter) const override {
    const std::int64_t half = parameter.numel() / 2;
    return rank_ == 0 ? FlatRange{0, half}
                      : FlatRange{half, parameter.numel() - half};
  }
  std::string capture_obstacle() const override { return ""; }

 private:
  int rank_;
  std::unique_ptr<Strategy> inner_;
};

TEST(CheckpointSession, SavesTheOptimizerStateThatTheStrategyAssigns) {
  const TemporaryDirectory folder;
  run_on_ranks(2, quick(Backend::shm), [&](Group& group) {
    SessionRun run(group, {}, std::make_unique<Halves>(group));
    AdamW optimizer({run.weight}, 0.1);
    run.objects.add_optimizer(optimizer);
    run.weight.mutable_grad() = at::ones({3});
    optimizer.step();
    const auto average = [&] {
      return optimizer_state(optimizer, {"weight"})
          .tensors.at("weight.exp_avg");
    };
    average().fill_(group.rank() + 1);

    run.session.save(folder.path() / "saved", {});
    average().zero_();
    run.session.load(folder.path() / "saved", {});

    EXPECT_TRUE(average().equal(at::tensor({1.0F, 2.0F, 2.0F}))) << average();
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
