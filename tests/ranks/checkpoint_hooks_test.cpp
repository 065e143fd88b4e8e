// SPDX-License-Identifier: Apache-2.0
// Hooks that see what is saved and loaded, and write files of their own.
#include <fstream>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "accelerate/safetensors.h"
#include "folders/checkpoints.h"
#include "support/lone_run.h"
#include "support/message_of.h"
#include "support/run_on_ranks.h"
#include "support/temporary_folder.h"
#include "support/training.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(Hooks, MayKeepWeightsOutUntilTheyAreRemoved) {
  const TemporaryFolder folder;
  LoneRun run(folder.path());
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

/// Hooks that keep the bias in a file of their own.
struct BiasApart {
  enum class Back { into_the_model, among_the_weights };

  Region save_with(Accelerator& accelerator) const {
    return accelerator.register_save_state_pre_hook(
        [](auto& weights, const fs::path& place) {
          const at::Tensor bias = weights[0].at("bias");
          save_safetensors({{"mine", bias}}, place / "bias.safetensors");
          weights[0].erase("bias");
        });
  }

  Region load_with(Accelerator& accelerator, torch::nn::Linear& net) const {
    return accelerator.register_load_state_pre_hook(
        [&net, way = back](auto& weights, const fs::path& place) {
          const at::Tensor bias =
              load_safetensors(place / "bias.safetensors").at("mine");
          if (way == Back::into_the_model) {
            const at::NoGradGuard no_grad;
            net->bias.copy_(bias);
            weights[0].erase("bias");
          } else {
            weights[0]["bias"] = bias;
          }
        });
  }

  Back back = Back::into_the_model;
};

TEST(Hooks, BringBackWhatOthersKeptApart) {
  for (const auto back :
       {BiasApart::Back::into_the_model, BiasApart::Back::among_the_weights}) {
    const TemporaryFolder folder;
    const BiasApart hooks{back};
    LoneRun run(folder.path());
    run.step();
    const Region saving = hooks.save_with(run.accelerator);
    const fs::path saved = run.accelerator.save_state();
    EXPECT_FALSE(
        load_safetensors(saved / "model.safetensors").contains("bias"));

    LoneRun other(folder.path());
    const Region loading = hooks.load_with(other.accelerator, other.net);
    const LoadStateReport report = other.accelerator.load_state(saved);

    EXPECT_THAT(report.left_out, testing::IsEmpty());
    EXPECT_TRUE(at::equal(other.net->bias, run.net->bias));
    EXPECT_TRUE(at::equal(other.net->weight, run.net->weight));
  }
}

TEST(Hooks, MayKeepAWholeModelApart) {
  const TemporaryFolder folder;
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

TEST(Hooks, ThatAreMissingWhenOthersKeptSomethingApartAreAnError) {
  const TemporaryFolder folder;
  LoneRun run(folder.path());
  const Region saving = BiasApart().save_with(run.accelerator);
  const fs::path saved = run.accelerator.save_state();
  constexpr const char* kText =
      "model: a hook kept `bias` out of the checkpoint, and this run has no "
      "hook that could load it";

  EXPECT_THAT(
      message_of<FormatError>([&] { run.accelerator.load_state(saved); }),
      HasSubstr(kText));
  EXPECT_THAT(
      run.accelerator.load_state(saved, {.strict = false}).left_out,
      testing::ElementsAre(kText));
}

TEST(Hooks, DoNotExcuseWhatNobodyKeptOut) {
  const TemporaryFolder folder;
  LoneRun run(folder.path());
  const Region saving = BiasApart().save_with(run.accelerator);
  const fs::path saved = run.accelerator.save_state();

  LoneRun more(folder.path());
  more.net->register_parameter("late", at::zeros({2}));
  more.accelerator.free_memory();
  more.accelerator.prepare(more.net, more.optimizer);
  const Region loading = BiasApart().load_with(more.accelerator, more.net);
  EXPECT_THAT(
      message_of<FormatError>([&] { more.accelerator.load_state(saved); }),
      testing::AllOf(
          HasSubstr("model: the checkpoint has no `late`"),
          testing::Not(HasSubstr("`bias`"))));
}

class FilesOfHooks : public testing::TestWithParam<bool> {};

TEST_P(FilesOfHooks, ArePartOfTheCheckpoint) {
  const TemporaryFolder folder;
  LoneRun run(folder.path());
  const Region saving = run.accelerator.register_save_state_pre_hook(
      [](auto&, const fs::path& place) {
        fs::create_directory(place / "adapter");
        std::ofstream(place / "adapter" / "rank.txt") << "8";
      });
  const fs::path saved = run.accelerator.save_state({.blocking = GetParam()});
  run.accelerator.wait_for_checkpoint();

  EXPECT_TRUE(
      read_manifest(saved).hook_files.contains("hooks/adapter/rank.txt"));
  std::string found;
  {
    const Region loading = run.accelerator.register_load_state_pre_hook(
        [&](auto&, const fs::path& place) {
          std::ifstream(place / "adapter" / "rank.txt") >> found;
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
      HasSubstr("hooks/adapter/rank.txt lies behind a link"));
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints, FilesOfHooks, testing::Bool(), [](const auto& test) {
      return test.param ? "Blocking" : "InTheBackground";
    });

TEST(Hooks, ThatThrowLeaveNothingBehind) {
  const TemporaryFolder folder;
  LoneRun run(folder.path());
  {
    const Region hook = run.accelerator.register_save_state_pre_hook(
        [](auto&, const fs::path& place) {
          std::ofstream(place / "half") << "x";
          throw std::runtime_error("no");
        });
    EXPECT_THROW(run.accelerator.save_state(), std::runtime_error);
  }
  const fs::path saved = run.accelerator.save_state();

  EXPECT_FALSE(fs::exists(saved / "hooks"));
  EXPECT_TRUE(verify_checkpoint(saved, read_manifest(saved)).empty());
  EXPECT_EQ(list_checkpoints(saved.parent_path()).size(), 1);
}

/// What `work` throws on each of two ranks, all at about the same time.
template <typename Work>
std::vector<std::string> texts_of_two(const Work& work) {
  std::vector<std::string> texts(2);
  run_on_ranks(2, quick(Backend::shm), [&](Group& group) {
    Accelerator accelerator{PartialState(group), {}};
    Net net = make_net();
    accelerator.prepare(net);
    try {
      work(accelerator, group.rank());
    } catch (const PeerError& error) {
      texts.at(static_cast<std::size_t>(group.rank())) =
          std::string("peer: ") + error.what();
    } catch (const std::exception& error) {
      texts.at(static_cast<std::size_t>(group.rank())) = error.what();
    }
    // Nobody is left in another call.
    accelerator.wait_for_everyone();
  });
  return texts;
}

TEST(Hooks, ThatThrowOnOneRankEndTheSaveOnAll) {
  for (const bool blocking : {true, false}) {
    const TemporaryFolder folder;
    const fs::path place = folder.path() / "c";
    const auto texts = texts_of_two([&](Accelerator& accelerator, int rank) {
      accelerator.save_state(place);
      const Region hook = accelerator.register_save_state_pre_hook(
          [&](auto&, const fs::path& mine) {
            std::ofstream(mine / std::to_string(rank)) << "x";
            if (rank == 1) {
              throw std::runtime_error("the adapter is gone");
            }
          });
      accelerator.save_state(place, {.blocking = blocking});
    });

    EXPECT_EQ(texts[1], "the adapter is gone");
    EXPECT_EQ(
        texts[0],
        "peer: no checkpoint at " + place.string() +
            ": a hook threw\n  rank 1: the adapter is gone");
    EXPECT_TRUE(verify_checkpoint(place, read_manifest(place)).empty());
    EXPECT_EQ(files_of(folder.path()), std::vector<std::string>{"c"});
  }
}

TEST(Hooks, OfOneRankAloneWriteIntoTheCheckpointOfAll) {
  for (const int with_hook : {0, 1}) {
    const TemporaryFolder folder;
    const auto texts = texts_of_two([&](Accelerator& accelerator, int rank) {
      std::optional<Region> hook;
      if (rank == with_hook) {
        hook.emplace(accelerator.register_save_state_pre_hook(
            [&](auto&, const fs::path& place) {
              std::ofstream(place / "mine") << rank;
            }));
      }
      accelerator.save_state(folder.path() / "c");
    });

    EXPECT_EQ(texts, (std::vector<std::string>{"", ""}));
    EXPECT_TRUE(
        read_manifest(folder.path() / "c").hook_files.contains("hooks/mine"))
        << with_hook;
  }
}

TEST(Hooks, ThatThrowOnOneRankEndTheLoadOnAll) {
  const TemporaryFolder folder;
  const fs::path place = folder.path() / "c";
  const auto texts = texts_of_two([&](Accelerator& accelerator, int rank) {
    accelerator.save_state(place);
    const Region hook =
        accelerator.register_load_state_pre_hook([&](auto&, const fs::path&) {
          if (rank == 1) {
            throw std::runtime_error("the adapter is gone");
          }
        });
    accelerator.load_state(place);
  });

  for (const std::string& text : texts) {
    EXPECT_EQ(
        text,
        "cannot load " + place.string() +
            ":\n  rank 1: a hook threw: the adapter is gone");
  }
}

/// Has no state on one rank.
struct Moody {
  Json state_dict() const {
    return rank == 0 ? throw std::runtime_error("not today") : Json(1);
  }
  void load_state_dict(const Json& /*state*/) {}
  int rank;
};

TEST(RegisteredObjects, ThatThrowOnOneRankEndTheSaveOnAll) {
  const TemporaryFolder folder;
  const auto texts = texts_of_two([&](Accelerator& accelerator, int rank) {
    Moody moody{rank};
    accelerator.register_for_checkpointing(moody);
    accelerator.save_state(folder.path() / "c");
  });

  EXPECT_EQ(texts[0], "not today");
  EXPECT_THAT(
      texts[1],
      testing::AllOf(
          testing::StartsWith("peer: no checkpoint at "),
          testing::EndsWith("\n  rank 0: not today")));
  EXPECT_TRUE(files_of(folder.path()).empty());
}

}  // namespace
}  // namespace accelerate
