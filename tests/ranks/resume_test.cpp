// SPDX-License-Identifier: Apache-2.0
// Tests resuming runs that have more than one simple loader: streams, several
// loaders, dropout.
#include <cmath>
#include <filesystem>
#include <map>
#include <mutex>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/nn.h>

#include "accelerate/accelerator.h"
#include "accelerate/data_loader.h"
#include "accelerate/grad_scaler.h"
#include "accelerate/optim.h"
#include "accelerate/tensor_map.h"
#include "support/counting_datasets.h"
#include "support/run_on_ranks.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

using Indices = std::vector<std::int64_t>;

/// Counts how many samples are read.
struct PlainStream : CountingStream {
  std::shared_ptr<int> reads = std::make_shared<int>(0);

  std::optional<std::int64_t> next() {
    ++*reads;
    return CountingStream::next();
  }
};

/// A stream with a state. Each number depends on all earlier numbers.
struct Walk : PlainStream {
  std::int64_t sum = 0;

  std::optional<std::int64_t> next() {
    const auto step = PlainStream::next();
    if (!step) {
      return std::nullopt;
    }
    sum += *step + 1;
    return sum;
  }
  void reset() {
    PlainStream::reset();
    sum = 0;
  }
  Json state_dict() const {
    return Json::object({{"at", next_index}, {"sum", sum}});
  }
  void load_state_dict(const Json& state) {
    next_index = state.at("at").as_integer();
    sum = state.at("sum").as_integer();
  }
};

Indices walk_to(std::int64_t n) {
  Walk walk;
  walk.n = n;
  Indices all;
  while (const auto next = walk.next()) {
    all.push_back(*next);
  }
  return all;
}

/// The samples that all ranks read, ordered by step and then by rank.
class SeenSamples {
 public:
  void add(
      const Group& group,
      const DataLoaderBase& loader,
      std::size_t step,
      const at::Tensor& batch) {
    const std::lock_guard lock(mutex_);
    by_step_[{step, group.rank()}] =
        to_indices(batch.slice(0, 0, loader.valid_rows()));
  }
  Indices in_order() const {
    Indices all;
    for (const auto& [position, values] : by_step_) {
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::size_t, int>, Indices> by_step_;
};

using StreamCase = std::tuple<int, int, bool, int>;
class ResumedStream : public testing::TestWithParam<StreamCase> {};

TEST_P(ResumedStream, ReturnsTheSamplesInOrderAndReadsOnlyTheRest) {
  const auto [before, after, dispatch, workers] = GetParam();
  const TemporaryDirectory folder;
  constexpr std::int64_t kSize = 61;
  SeenSamples seen;
  const auto run = [&](Group& group, const auto& body) {
    Walk walk;
    walk.n = kSize;
    const auto reads = walk.reads;
    DataLoader loader(walk, {.batch_size = 3, .num_workers = workers});
    Accelerator accelerator(
        PartialState(group),
        {.dataloader_config =
             DataLoaderConfiguration{.dispatch_batches = dispatch}});
    accelerator.prepare(loader);
    body(accelerator, loader, *reads);
  };
  run_on_ranks(before, quick(Backend::shm), [&](Group& group) {
    run(group, [&](Accelerator& accelerator, auto& loader, const int&) {
      std::size_t steps = 0;
      for (at::Tensor& batch : loader) {
        seen.add(group, loader, steps, batch);
        if (++steps == 4) {
          accelerator.save_state(folder.path() / "c");
          break;
        }
      }
    });
  });
  run_on_ranks(after, quick(Backend::shm), [&](Group& group) {
    run(group, [&](Accelerator& accelerator, auto& loader, const int& reads) {
      accelerator.load_state(folder.path() / "c");
      std::size_t steps = 4;
      for (at::Tensor& batch : loader) {
        seen.add(group, loader, steps++, batch);
      }
      // Reads the remaining samples, the end of the stream, and the first step
      // again to fill up the last step.
      EXPECT_LE(reads, kSize - 4 * 3 * before + 1 + 3 * after);
    });
  });

  EXPECT_EQ(seen.in_order(), walk_to(kSize));
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints,
    ResumedStream,
    testing::Combine(
        testing::Values(1, 2, 3),
        testing::Values(1, 2, 3),
        testing::Bool(),
        testing::Values(0, 1)));

TEST(ResumedStreams, WithoutAStateAreReadUpToTheSavedPosition) {
  const TemporaryDirectory folder;
  const auto make = [] {
    PlainStream stream;
    stream.n = 20;
    return DataLoader(stream, {.batch_size = 2});
  };
  {
    auto loader = make();
    Accelerator accelerator{PartialState(Group()), {}};
    accelerator.prepare(loader);
    for (const at::Tensor& batch : loader) {
      if (to_indices(batch).front() == 6) {
        accelerator.save_state(folder.path() / "c");
        break;
      }
    }
  }
  auto loader = make();
  Accelerator accelerator{PartialState(Group()), {}};
  accelerator.prepare(loader);
  accelerator.load_state(folder.path() / "c");

  EXPECT_EQ(read_all(loader).front(), (Indices{8, 9}));
}

/// One process with dropout, random numbers, and two loaders that are read in
/// step.
class DropoutRun {
 public:
  explicit DropoutRun(std::int64_t seed)
      : accelerator_(PartialState(Group()), {}),
        net_(make_net(seed)),
        optimizer_(net_->parameters(), 0.05),
        first_(Counting{26}, {.batch_size = 2, .shuffle = true, .seed = 5}),
        second_(Counting{10}, {.batch_size = 4, .shuffle = true, .seed = 6}) {
    accelerator_.prepare(net_, optimizer_, first_, second_);
    accelerator_.register_for_checkpointing(*this);
  }

  /// Trains up to step `until`. Calls `at` after each step.
  void train(int until, const std::function<void(int)>& at = {}) {
    while (step_ < until) {
      for (const at::Tensor& batch : first_) {
        const at::Tensor noise = at::rand({batch.size(0), 1});
        losses.push_back(train_on(at::cat({batch.unsqueeze(1), noise}, 1)));
        ++step_;
        if (step_ % 3 == 0) {
          look_at_second();
        }
        if (at) {
          at(step_);
        }
        if (step_ == until) {
          return;
        }
      }
    }
  }

  Accelerator& accelerator() { return accelerator_; }
  Json state_dict() const { return Json(step_); }
  void load_state_dict(const Json& state) {
    step_ = static_cast<int>(state.as_integer());
  }

  std::vector<float> losses;

 private:
  static torch::nn::Sequential make_net(std::int64_t seed) {
    torch::manual_seed(seed);
    return torch::nn::Sequential(
        torch::nn::Linear(2, 16),
        torch::nn::Dropout(0.5),
        torch::nn::Linear(16, 1));
  }

  float train_on(const at::Tensor& rows) {
    const at::Tensor loss = net_->forward(rows.mul(0.1)).pow(2).mean();
    accelerator_.backward(loss);
    optimizer_.step();
    optimizer_.zero_grad();
    return loss.item<float>();
  }

  // Reads whole epochs of the second loader between steps of the first loader.
  void look_at_second() {
    for (const at::Tensor& batch : second_) {
      losses.push_back(batch.select(0, 0).item<float>());
    }
  }

  Accelerator accelerator_;
  torch::nn::Sequential net_;
  AdamW optimizer_;
  DataLoader<Counting> first_;
  DataLoader<Counting> second_;
  int step_ = 0;
};

TEST(Resume, RepeatsDropoutRandomNumbersAndEveryLoader) {
  const TemporaryDirectory folder;
  constexpr int kSteps = 20;
  std::vector<std::size_t> losses_at(1);
  DropoutRun uninterrupted(1);
  uninterrupted.train(kSteps, [&](int step) {
    uninterrupted.accelerator().save_state(
        folder.path() / std::to_string(step));
    losses_at.push_back(uninterrupted.losses.size());
  });

  for (int stop = 1; stop < kSteps; ++stop) {
    DropoutRun resumed(99);
    resumed.accelerator().load_state(folder.path() / std::to_string(stop));
    resumed.train(kSteps);

    const std::vector<float> expected(
        uninterrupted.losses.begin() +
            static_cast<std::ptrdiff_t>(
                losses_at[static_cast<std::size_t>(stop)]),
        uninterrupted.losses.end());
    EXPECT_EQ(resumed.losses, expected) << "stopped at " << stop;
  }
}

/// One rank with two loaders that are read alternately: in each step, two
/// batches from one loader and one batch from the other. Both loops are
/// interrupted in the middle.
class AlternatingRun {
 public:
  explicit AlternatingRun(const Group& group)
      : accelerator_(PartialState(group), {}),
        long_(Counting{44}, {.batch_size = 2, .shuffle = true, .seed = 5}),
        short_(Counting{28}, {.batch_size = 4, .shuffle = true, .seed = 6}) {
    accelerator_.prepare(long_, short_);
    accelerator_.register_for_checkpointing(*this);
  }

  /// Continues up to step `until`. Calls `at` after each step.
  void read(int until, const std::function<void(int)>& at = {}) {
    while (step_ < until) {
      next_of(long_, in_long_);
      next_of(long_, in_long_);
      next_of(short_, in_short_);
      ++step_;
      if (at) {
        at(step_);
      }
    }
  }

  Accelerator& accelerator() { return accelerator_; }
  Json state_dict() const { return Json(step_); }
  void load_state_dict(const Json& state) {
    step_ = static_cast<int>(state.as_integer());
  }

  std::vector<Indices> seen;

 private:
  using Loader = DataLoader<Counting>;

  void next_of(Loader& loader, std::optional<Loader::Iterator>& iterator) {
    if (iterator) {
      ++*iterator;
    }
    // After a load, the rest of an epoch may be empty.
    while (!iterator || *iterator == std::default_sentinel) {
      iterator.reset();
      iterator.emplace(loader.begin());
    }
    seen.push_back(to_indices(**iterator));
  }

  Accelerator accelerator_;
  Loader long_;
  Loader short_;
  std::optional<Loader::Iterator> in_long_;
  std::optional<Loader::Iterator> in_short_;
  int step_ = 0;
};

TEST(Resume, ContinuesInTheMiddleOfSeveralLoadersOnSeveralRanks) {
  const TemporaryDirectory folder;
  constexpr int kSteps = 14;
  std::vector<std::vector<Indices>> uninterrupted(2);
  run_on_ranks(2, quick(Backend::shm), [&](Group& group) {
    AlternatingRun run(group);
    run.read(kSteps, [&](int step) {
      run.accelerator().save_state(folder.path() / std::to_string(step));
    });
    uninterrupted[static_cast<std::size_t>(group.rank())] = run.seen;
  });
  EXPECT_NE(uninterrupted[0], uninterrupted[1]);

  for (int stop = 1; stop < kSteps; ++stop) {
    run_on_ranks(2, quick(Backend::shm), [&](Group& group) {
      AlternatingRun run(group);
      run.accelerator().load_state(folder.path() / std::to_string(stop));
      run.read(kSteps);
      const auto& all = uninterrupted[static_cast<std::size_t>(group.rank())];
      EXPECT_EQ(
          run.seen, (std::vector<Indices>(all.begin() + 3 * stop, all.end())))
          << "rank " << group.rank() << ", stopped at " << stop;
    });
  }
}

TEST(Resume, RestoresAGradientScaler) {
  const TemporaryDirectory folder;
  const GradScalerKwargs kwargs{.init_scale = 1024, .growth_interval = 2};
  const auto step = [](GradScaler& scaler, double gradient) {
    scaler.unscale_({at::full({2}, gradient)}, &scaler);
    scaler.update();
  };
  const auto ends = [&](GradScaler& scaler) {
    step(scaler, 1);
    step(scaler, INFINITY);
    step(scaler, 1);
    return scaler.state_dict();
  };
  GradScaler uninterrupted(kwargs);
  Accelerator first{PartialState(Group()), {}};
  first.register_for_checkpointing(uninterrupted);
  step(uninterrupted, INFINITY);
  step(uninterrupted, 1);
  first.save_state(folder.path() / "c");

  GradScaler resumed(kwargs);
  Accelerator second{PartialState(Group()), {}};
  second.register_for_checkpointing(resumed);
  second.load_state(folder.path() / "c");

  EXPECT_EQ(resumed.get_scale(), 512);
  EXPECT_EQ(ends(resumed), ends(uninterrupted));
  EXPECT_EQ(resumed.get_scale(), 512);
}

TEST(Resume, RestoresRegisteredRandomStates) {
  const TemporaryDirectory folder;
  run_on_ranks(2, quick(Backend::shm), [&](Group& group) {
    Accelerator accelerator(PartialState(group), {});
    std::int64_t own = 10 + group.rank();
    accelerator.register_random_state(
        "python",
        [&] { return at::full({1}, own, at::kByte); },
        [&](const at::Tensor& state) { own = state.item<std::int64_t>(); });
    accelerator.save_state(folder.path() / "saved");
    own = 0;

    accelerator.load_state(folder.path() / "saved");

    EXPECT_EQ(own, 10 + group.rank());
  });
}

}  // namespace
}  // namespace accelerate
