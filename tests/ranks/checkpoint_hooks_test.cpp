// SPDX-License-Identifier: Apache-2.0
// Hooks that see the saved and loaded weights, and write their own files.
#include <fstream>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "accelerate/safetensors.h"
#include "checkpoint_directory/checkpoints.h"
#include "support/message_of.h"
#include "support/run_on_ranks.h"
#include "support/single_process_run.h"
#include "support/temporary_directory.h"
#include "support/training.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(Hooks, MayRemoveWeightsUntilTheyAreUnregistered) {
  const TemporaryDirectory folder;
  SingleProcessRun run(folder.path());
  {
    const Region hook = run.accelerator.register_save_state_pre_hook(
        [](auto& weights, const fs::path&) { weights[0].erase("bias"); });
    const fs::path without = run.accelerator.save_state();
    EXPECT_FALSE(
        load_safetensors(without / "model.safetensors").contains("bias"));
  }
  const fs::path with = run.accelerator.save_state();
  EXPECT_TRUE(load_safetensors(with / "model.safetensors").contains("bias"));

  const at::Tensor bias = run.net->bias.detach().clone();
  run.step();
  const at::Tensor moved = run.net->bias.detach().clone();
  {
    const Region hook = run.accelerator.register_load_state_pre_hook(
        [](auto& weights, const fs::path&) { weights[0].erase("bias"); });
    run.accelerator.load_state(with);
    EXPECT_TRUE(at::equal(run.net->bias, moved));
  }
  run.accelerator.load_state(with);
  EXPECT_TRUE(at::equal(run.net->bias, bias));
}

// The load hook runs after the files are verified, before the weights are
// copied into the model.
TEST(Hooks, MayShortenTheFilesOfTheCheckpointThatIsLoaded) {
  const TemporaryDirectory folder;
  SingleProcessRun run(folder.path());
  run.step();
  const fs::path saved = run.accelerator.save_state();
  SingleProcessRun other(folder.path());
  const Region hook = other.accelerator.register_load_state_pre_hook(
      [&](auto&, const fs::path&) {
        for (const auto& entry : fs::recursive_directory_iterator(saved)) {
          if (entry.is_regular_file()) {
            fs::resize_file(entry.path(), 0);
          }
        }
      });

  other.accelerator.load_state(saved);

  EXPECT_TRUE(at::equal(other.net->bias, run.net->bias));
  EXPECT_TRUE(at::equal(other.net->weight, run.net->weight));
}

/// Hooks that keep the bias in a separate file.
struct ExternalBias {
  enum class Target { into_the_model, among_the_weights };

  Region save_with(Accelerator& accelerator) const {
    return accelerator.register_save_state_pre_hook(
        [](auto& weights, const fs::path& hooks) {
          const at::Tensor bias = weights[0].at("bias");
          save_safetensors({{"bias", bias}}, hooks / "bias.safetensors");
          weights[0].erase("bias");
        });
  }

  Region load_with(Accelerator& accelerator, torch::nn::Linear& net) const {
    return accelerator.register_load_state_pre_hook(
        [&net, target = restore_to](auto& weights, const fs::path& hooks) {
          const at::Tensor bias =
              load_safetensors(hooks / "bias.safetensors").at("bias");
          if (target == Target::into_the_model) {
            const at::NoGradGuard no_grad;
            net->bias.copy_(bias);
            weights[0].erase("bias");
          } else {
            weights[0]["bias"] = bias;
          }
        });
  }

  Target restore_to = Target::into_the_model;
};

TEST(Hooks, RestoreWeightsThatSaveHooksRemoved) {
  for (const auto back :
       {ExternalBias::Target::into_the_model,
        ExternalBias::Target::among_the_weights}) {
    const TemporaryDirectory folder;
    const ExternalBias hooks{back};
    SingleProcessRun run(folder.path());
    run.step();
    const Region saving = hooks.save_with(run.accelerator);
    const fs::path saved = run.accelerator.save_state();
    EXPECT_FALSE(
        load_safetensors(saved / "model.safetensors").contains("bias"));

    SingleProcessRun other(folder.path());
    const Region loading = hooks.load_with(other.accelerator, other.net);
    const LoadStateReport report = other.accelerator.load_state(saved);

    EXPECT_THAT(report.left_out, testing::IsEmpty());
    EXPECT_TRUE(at::equal(other.net->bias, run.net->bias));
    EXPECT_TRUE(at::equal(other.net->weight, run.net->weight));
  }
}

TEST(Hooks, MayRemoveAWholeModel) {
  const TemporaryDirectory folder;
  Accelerator accelerator{PartialState(Group()), {}};
  torch::nn::Linear first(2, 3);
  torch::nn::Linear second(3, 4);
  accelerator.prepare(first, second);
  const at::Tensor weight = first->weight.detach().clone();
  const Region saving = accelerator.register_save_state_pre_hook(
      [](auto& weights, const fs::path&) { weights.pop_back(); });
  accelerator.save_state(folder.path() / "c");
  {
    const at::NoGradGuard no_grad;
    first->weight.zero_();
    second->weight.zero_();
  }
  const Region loading = accelerator.register_load_state_pre_hook(
      [](auto& weights, const fs::path&) { weights.pop_back(); });

  accelerator.load_state(folder.path() / "c");

  EXPECT_TRUE(at::equal(first->weight, weight));
  EXPECT_EQ(second->weight.abs().max().item<float>(), 0);
}

TEST(Hooks, AreRequiredToLoadWeightsThatSaveHooksRemoved) {
  const TemporaryDirectory folder;
  SingleProcessRun run(folder.path());
  const Region saving = ExternalBias().save_with(run.accelerator);
  const fs::path saved = run.accelerator.save_state();
  constexpr const char* kText =
      "model: a hook removed `bias` from the checkpoint, and this run has no "
      "load hook to restore it";

  EXPECT_THAT(
      message_of<FormatError>([&] { run.accelerator.load_state(saved); }),
      HasSubstr(kText));
  EXPECT_THAT(
      run.accelerator.load_state(saved, {.strict = false}).left_out,
      testing::ElementsAre(kText));
}

TEST(Hooks, DoNotExcuseOtherMissingWeights) {
  const TemporaryDirectory folder;
  SingleProcessRun run(folder.path());
  const Region saving = ExternalBias().save_with(run.accelerator);
  const fs::path saved = run.accelerator.save_state();

  SingleProcessRun more(folder.path());
  more.net->register_parameter("late", at::zeros({2}));
  more.accelerator.free_memory();
  more.accelerator.prepare(more.net, more.optimizer);
  const Region loading = ExternalBias().load_with(more.accelerator, more.net);
  EXPECT_THAT(
      message_of<FormatError>([&] { more.accelerator.load_state(saved); }),
      testing::AllOf(
          HasSubstr("model: the checkpoint has no weight `late`"),
          testing::Not(HasSubstr("`bias`"))));
}

class FilesOfHooks : public testing::TestWithParam<bool> {};

TEST_P(FilesOfHooks, ArePartOfTheCheckpoint) {
  const TemporaryDirectory folder;
  SingleProcessRun run(folder.path());
  const Region saving = run.accelerator.register_save_state_pre_hook(
      [](auto&, const fs::path& hooks) {
        fs::create_directory(hooks / "adapter");
        std::ofstream(hooks / "adapter" / "rank.txt") << "8";
      });
  const fs::path saved = run.accelerator.save_state({.blocking = GetParam()});
  run.accelerator.wait_for_checkpoint();

  EXPECT_TRUE(
      read_manifest(saved).hook_files.contains("hooks/adapter/rank.txt"));
  std::string found;
  {
    const Region loading = run.accelerator.register_load_state_pre_hook(
        [&](auto&, const fs::path& hooks) {
          std::ifstream(hooks / "adapter" / "rank.txt") >> found;
        });
    run.accelerator.load_state(saved);
  }
  EXPECT_EQ(found, "8");

  std::ofstream(saved / "hooks" / "adapter" / "rank.txt") << "9";
  EXPECT_THAT(
      message_of<FormatError>([&] { run.accelerator.load_state(saved); }),
      HasSubstr("hooks/adapter/rank.txt has checksum"));
  fs::rename(saved / "hooks" / "adapter", folder.path() / "elsewhere");
  fs::create_directory_symlink(
      folder.path() / "elsewhere", saved / "hooks" / "adapter");
  EXPECT_THAT(
      message_of<FormatError>([&] { run.accelerator.load_state(saved); }),
      HasSubstr("hooks/adapter/rank.txt is reached through a symbolic link"));
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints, FilesOfHooks, testing::Bool(), [](const auto& test) {
      return test.param ? "Blocking" : "InTheBackground";
    });

TEST(Hooks, LeaveNothingBehindWhenTheyThrow) {
  const TemporaryDirectory folder;
  SingleProcessRun run(folder.path());
  {
    const Region hook = run.accelerator.register_save_state_pre_hook(
        [](auto&, const fs::path& hooks) {
          std::ofstream(hooks / "half") << "x";
          throw std::runtime_error("no");
        });
    EXPECT_THROW(run.accelerator.save_state(), std::runtime_error);
  }
  const fs::path saved = run.accelerator.save_state();

  EXPECT_FALSE(fs::exists(saved / "hooks"));
  EXPECT_TRUE(verify_checkpoint(saved, read_manifest(saved)).empty());
  EXPECT_EQ(list_checkpoints(saved.parent_path()).size(), 1);
}

/// The errors that `work` throws on two ranks, at about the same time.
template <typename Work>
std::vector<std::string> texts_of_two(const Work& work) {
  std::vector<std::string> texts(2);
  run_on_ranks(2, quick(Backend::shm), [&](Group& group) {
    Accelerator accelerator{PartialState(group), {}};
    Net net = make_net();
    accelerator.prepare(net);
    try {
      work(accelerator, group.rank());
    } catch (const RankError& error) {
      texts.at(static_cast<std::size_t>(group.rank())) =
          std::string("RankError: ") + error.what();
    } catch (const std::exception& error) {
      texts.at(static_cast<std::size_t>(group.rank())) = error.what();
    }
    // No rank is still waiting in another call.
    accelerator.wait_for_everyone();
  });
  return texts;
}

TEST(Hooks, FailTheSaveOnAllRanksWhenOneThrows) {
  for (const bool blocking : {true, false}) {
    const TemporaryDirectory folder;
    const fs::path checkpoint = folder.path() / "c";
    const auto texts = texts_of_two([&](Accelerator& accelerator, int rank) {
      accelerator.save_state(checkpoint);
      const Region hook = accelerator.register_save_state_pre_hook(
          [&](auto&, const fs::path& hooks) {
            std::ofstream(hooks / std::to_string(rank)) << "x";
            if (rank == 1) {
              throw std::runtime_error("the adapter is gone");
            }
          });
      accelerator.save_state(checkpoint, {.blocking = blocking});
    });

    EXPECT_EQ(texts[1], "the adapter is gone");
    EXPECT_EQ(
        texts[0],
        "RankError: cannot save a checkpoint to " + checkpoint.string() +
            ": a save hook threw\n  rank 1: the adapter is gone");
    EXPECT_TRUE(
        verify_checkpoint(checkpoint, read_manifest(checkpoint)).empty());
    EXPECT_EQ(files_of(folder.path()), std::vector<std::string>{"c"});
  }
}

TEST(Hooks, OfOneRankWriteIntoTheSharedCheckpoint) {
  for (const int with_hook : {0, 1}) {
    const TemporaryDirectory folder;
    const auto texts = texts_of_two([&](Accelerator& accelerator, int rank) {
      std::optional<Region> hook;
      if (rank == with_hook) {
        hook.emplace(accelerator.register_save_state_pre_hook(
            [&](auto&, const fs::path& hooks) {
              std::ofstream(hooks / "rank") << rank;
            }));
      }
      accelerator.save_state(folder.path() / "c");
    });

    EXPECT_EQ(texts, (std::vector<std::string>{"", ""}));
    EXPECT_TRUE(
        read_manifest(folder.path() / "c").hook_files.contains("hooks/rank"))
        << with_hook;
  }
}

TEST(Hooks, FailTheLoadOnAllRanksWhenOneThrows) {
  const TemporaryDirectory folder;
  const fs::path checkpoint = folder.path() / "c";
  const auto texts = texts_of_two([&](Accelerator& accelerator, int rank) {
    accelerator.save_state(checkpoint);
    const Region hook =
        accelerator.register_load_state_pre_hook([&](auto&, const fs::path&) {
          if (rank == 1) {
            throw std::runtime_error("the adapter is gone");
          }
        });
    accelerator.load_state(checkpoint);
  });

  for (const std::string& text : texts) {
    EXPECT_EQ(
        text,
        "cannot load " + checkpoint.string() +
            ":\n  rank 1: a load hook threw: the adapter is gone");
  }
}

/// Throws on one rank instead of returning a state.
struct FailsOnOneRank {
  Json state_dict() const {
    return rank == 0 ? throw std::runtime_error("not today") : Json(1);
  }
  void load_state_dict(const Json& /*state*/) {}
  int rank;
};

TEST(RegisteredObjects, FailTheSaveOnAllRanksWhenOneThrows) {
  const TemporaryDirectory folder;
  const auto texts = texts_of_two([&](Accelerator& accelerator, int rank) {
    FailsOnOneRank moody{rank};
    accelerator.register_for_checkpointing(moody);
    accelerator.save_state(folder.path() / "c");
  });

  EXPECT_EQ(texts[0], "not today");
  EXPECT_THAT(
      texts[1],
      testing::AllOf(
          testing::StartsWith("RankError: cannot save a checkpoint to "),
          testing::EndsWith("\n  rank 0: not today")));
  EXPECT_TRUE(files_of(folder.path()).empty());
}

}  // namespace
}  // namespace accelerate
