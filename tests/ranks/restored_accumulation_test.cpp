// SPDX-License-Identifier: Apache-2.0
// Tests gradient accumulation that some processes start and other processes
// finish.
#include <array>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/nn.h>

#include "accelerate/accelerator.h"
#include "accelerate/error.h"
#include "accelerate/optim.h"
#include "support/message_of.h"
#include "support/run_on_ranks.h"
#include "support/temporary_directory.h"
#include "support/training.h"

namespace accelerate {
namespace {

constexpr int kGroup = 3;
constexpr double kRate = 0.05;

/// The rows of each rank: different in every micro-step.
at::Tensor rows_at(int ranks, int rank, int micro) {
  return batch_of(rank + 5 * ranks, micro);
}

double weight_at(int rank, int micro) {
  return 1 + rank + 2 * micro;
}

/// Two models, each with an optimizer, and one joint loss.
struct TwoNets {
  explicit TwoNets(std::int64_t seed)
      : first(make_net(seed)), second(make_net(seed + 1)) {}

  at::Tensor loss(const at::Tensor& rows) {
    return net_loss(first, rows).add(net_loss(second, rows.mul(2)));
  }

  std::vector<at::Tensor> parameters() const {
    std::vector<at::Tensor> all = first->parameters();
    for (const at::Tensor& parameter : second->parameters()) {
      all.push_back(parameter);
    }
    return all;
  }

  Net first;
  Net second;
};

/// Whether gradients are averaged in every micro-step or only at the end.
enum class When { at_the_end, each_batch };

class AccumulatingRun {
 public:
  AccumulatingRun(
      const Group& group,
      AccumulationWeighting weighting,
      When when,
      std::int64_t seed)
      : accelerator(
            PartialState(group),
            {.gradient_accumulation_plugin =
                 GradientAccumulationPlugin{
                     .num_steps = kGroup,
                     .sync_each_batch = when == When::each_batch,
                     .weighting = weighting}}),
        nets(seed),
        group_(group),
        weighted_(weighting == AccumulationWeighting::weighted),
        first_(nets.first->parameters(), kRate),
        second_(nets.second->parameters(), kRate) {
    accelerator.prepare(nets.first, nets.second, first_, second_);
  }

  void step(int micro) {
    const int rank = group_.rank();
    const Region region = weighted_
                              ? accelerator.accumulate(weight_at(rank, micro))
                              : accelerator.accumulate();
    accelerator.backward(nets.loss(rows_at(group_.size(), rank, micro)));
    for (SGD* optimizer : {&first_, &second_}) {
      optimizer->step();
      optimizer->zero_grad();
    }
  }

  Accelerator accelerator;
  TwoNets nets;

 private:
  const Group& group_;
  bool weighted_;
  SGD first_;
  SGD second_;
};

/// Runs the first micro-steps of a group with one number of ranks, and the rest
/// with another number.
struct Division {
  int before;
  int after;
  int stop;

  int ranks_at(int micro) const { return micro < stop ? before : after; }

  template <typename Work>
  void for_each(const Work& work) const {
    for (int micro = 0; micro < kGroup; ++micro) {
      for (int rank = 0; rank < ranks_at(micro); ++rank) {
        work(rank, micro);
      }
    }
  }

  /// Returns the factor of one micro-batch in the gradient.
  double share(AccumulationWeighting weighting, int rank, int micro) const {
    const auto weight = [&](int r, int m) {
      return weighting == AccumulationWeighting::weighted ? weight_at(r, m) : 1;
    };
    if (weighting == AccumulationWeighting::fixed) {
      return 1.0 / kGroup / ranks_at(micro);
    }
    double sum = 0;
    for_each([&](int r, int m) { sum += weight(r, m); });
    return weight(rank, micro) / sum;
  }

  /// Returns the same update, computed in one process.
  std::vector<at::Tensor> update(AccumulationWeighting weighting) const {
    TwoNets nets(7);
    for_each([&](int rank, int micro) {
      nets.loss(rows_at(ranks_at(micro), rank, micro))
          .mul(share(weighting, rank, micro))
          .backward();
    });
    const at::NoGradGuard no_grad;
    std::vector<at::Tensor> updated;
    for (const at::Tensor& parameter : nets.parameters()) {
      updated.push_back(
          parameter.grad().defined() ? parameter.sub(parameter.grad(), kRate)
                                     : parameter.clone());
    }
    return updated;
  }
};

using AccumulationCase = std::tuple<AccumulationWeighting, When, int, int>;
class RestoredAccumulation : public testing::TestWithParam<AccumulationCase> {};

TEST_P(RestoredAccumulation, IsFinishedAsIfTheSameRanksHadStartedIt) {
  const auto [weighting, when, after, stop] = GetParam();
  const Division division{3, after, stop};
  const TemporaryDirectory folder;
  run_on_ranks(
      division.before, quick(Backend::shm), [&, w = weighting](Group& group) {
        AccumulatingRun run(group, w, std::get<1>(GetParam()), /*seed=*/7);
        for (int micro = 0; micro < division.stop; ++micro) {
          run.step(micro);
        }
        run.accelerator.save_state(folder.path() / "c");
      });

  const std::vector<at::Tensor> expected = division.update(weighting);
  run_on_ranks(
      division.after, quick(Backend::shm), [&, w = weighting](Group& group) {
        AccumulatingRun run(group, w, std::get<1>(GetParam()), /*seed=*/99);
        run.accelerator.load_state(folder.path() / "c");
        for (int micro = division.stop; micro < kGroup; ++micro) {
          EXPECT_FALSE(run.accelerator.sync_gradients());
          run.step(micro);
        }
        EXPECT_TRUE(run.accelerator.sync_gradients());
        EXPECT_LT(largest_difference(run.nets.parameters(), expected), 2e-7);
      });
}

/// A run in one process, before or after the first of several micro-steps.
struct StartedRun {
  StartedRun(
      std::int64_t num_steps,
      AccumulationWeighting weighting,
      bool half = false)
      : accelerator(
            PartialState(Group()),
            {.gradient_accumulation_plugin = GradientAccumulationPlugin{
                 .num_steps = num_steps, .weighting = weighting}}) {
    accelerator.prepare(net);
    if (half) {
      auto region = accelerator.accumulate();
      accelerator.backward(net_loss(net, batch_of(0, 0)));
    }
  }

  Accelerator accelerator;
  Net net = make_net();
};

TEST(RestoredAccumulations, WithDifferentWeightsAreRefused) {
  using enum AccumulationWeighting;
  const TemporaryDirectory folder;
  const auto from = [&](std::int64_t steps, AccumulationWeighting weighting) {
    StartedRun run(steps, weighting, /*half=*/true);
    return run.accelerator.save_state(folder.path() / "c");
  };
  const auto load_error = [](const std::filesystem::path& saved,
                             StartedRun&& run) {
    return message_of<FormatError>([&] { run.accelerator.load_state(saved); });
  };

  const auto checkpoint = from(3, fixed);
  constexpr const char* kPrefix =
      "the checkpoint was saved in the middle of gradient accumulation "
      "with `num_steps = 3` and weighting `fixed`, but this run uses "
      "`num_steps = ";
  EXPECT_THAT(
      load_error(checkpoint, StartedRun(2, fixed)),
      testing::HasSubstr(std::string(kPrefix) + "2` and weighting `fixed`"));
  EXPECT_THAT(
      load_error(checkpoint, StartedRun(3, group)),
      testing::HasSubstr(std::string(kPrefix) + "3` and weighting `group`"));

  StartedRun other(2, fixed);
  EXPECT_THAT(
      other.accelerator.load_state(checkpoint, {.strict = false}).left_out,
      testing::ElementsAre(testing::StartsWith(kPrefix)));
  // The number of micro-steps matters only for fixed weights.
  EXPECT_TRUE(StartedRun(2, group)
                  .accelerator.load_state(from(3, group))
                  .left_out.empty());
  // Between accumulations there are no weights to check.
  StartedRun between(3, fixed);
  const auto complete = between.accelerator.save_state(folder.path() / "d");
  EXPECT_TRUE(
      StartedRun(2, group).accelerator.load_state(complete).left_out.empty());
}

std::string name_of_accumulation(
    const testing::TestParamInfo<AccumulationCase>& test) {
  const auto [weighting, when, after, stop] = test.param;
  const std::array names{"Fixed", "Group", "Weighted"};
  return std::string(names.at(static_cast<std::size_t>(weighting))) +
         (when == When::each_batch ? "EachBatch" : "") + "To" +
         std::to_string(after) + "At" + std::to_string(stop);
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints,
    RestoredAccumulation,
    testing::Combine(
        testing::Values(
            AccumulationWeighting::fixed,
            AccumulationWeighting::group,
            AccumulationWeighting::weighted),
        testing::Values(When::at_the_end, When::each_batch),
        testing::Values(1, 2, 3, 4),
        testing::Values(1, 2)),
    name_of_accumulation);

}  // namespace
}  // namespace accelerate
