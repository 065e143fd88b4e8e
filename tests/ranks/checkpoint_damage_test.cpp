// SPDX-License-Identifier: Apache-2.0
// Checkpoints that somebody or something changed, and runs they do not fit.
#include <fstream>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/nn.h>
#include <torch/optim.h>

#include "accelerate/accelerator.h"
#include "accelerate/error.h"
#include "accelerate/lr_scheduler.h"
#include "accelerate/optim.h"
#include "accelerate/safetensors.h"
#include "folders/checkpoints.h"
#include "folders/checksum.h"
#include "folders/staged_folder.h"
#include "support/message_of.h"
#include "support/run_on_ranks.h"
#include "support/temporary_folder.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// A run on one process with a model large enough for several pages.
class LoneRun {
 public:
  explicit LoneRun(const fs::path& folder, std::int64_t width = 160)
      : accelerator(
            PartialState(Group()),
            {.project_config =
                 ProjectConfiguration{
                     .project_dir = folder,
                     .automatic_checkpoint_naming = true}}),
        net(width, 30),
        optimizer(net->parameters(), 0.1) {
    accelerator.prepare(net, optimizer);
  }

  void step() {
    const auto width = net->weight.size(1);
    accelerator.backward(net->forward(torch::ones({2, width})).sum());
    optimizer.step();
    optimizer.zero_grad();
  }

  Accelerator accelerator;
  torch::nn::Linear net;
  AdamW optimizer;
};

fs::path saved_once(const fs::path& folder) {
  LoneRun run(folder);
  run.step();
  return run.accelerator.save_state();
}

std::vector<std::string> files_of(const fs::path& checkpoint) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(checkpoint)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void flip_bit(const fs::path& path, std::uintmax_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(byte ^ 0x10));
}

/// Loading says `text` and changes nothing.
void expect_refused(const fs::path& checkpoint, const std::string& text) {
  const TemporaryFolder elsewhere;
  LoneRun run(elsewhere.path());
  const at::Tensor before = run.net->weight.detach().clone();
  EXPECT_THAT(
      message_of<Error>([&] { run.accelerator.load_state(checkpoint); }),
      HasSubstr(text));
  EXPECT_TRUE(at::equal(run.net->weight, before));
  EXPECT_EQ(run.accelerator.step(), 0);
}

TEST(Damage, TruncationOfAnyFileIsNamed) {
  const TemporaryFolder folder;
  const fs::path whole = saved_once(folder.path());
  for (const std::string& name : files_of(whole)) {
    SCOPED_TRACE(name);
    const TemporaryFolder copy;
    fs::copy(whole, copy.path() / "c", fs::copy_options::recursive);
    fs::resize_file(copy.path() / "c" / name, fs::file_size(whole / name) / 2);
    expect_refused(copy.path() / "c", name);
  }
}

TEST(Damage, AFlippedBitInAnyPageIsNamed) {
  const TemporaryFolder folder;
  const fs::path whole = saved_once(folder.path());
  int flips = 0;
  for (const std::string& name : files_of(whole)) {
    for (std::uintmax_t at = 7; at < fs::file_size(whole / name); at += 4096) {
      SCOPED_TRACE(name + " at " + std::to_string(at));
      flip_bit(whole / name, at);
      expect_refused(whole, name);
      flip_bit(whole / name, at);
      ++flips;
    }
  }
  EXPECT_GT(flips, 12);
  LoneRun(folder.path()).accelerator.load_state(whole);
}

// Large files are mapped, small ones are read.
TEST(Damage, SumsOfLargeFilesAreThoseOfTheirBytes) {
  const TemporaryFolder folder;
  std::string content(std::size_t{20} << 20, 'x');
  content += "the end";
  const auto path = folder.write("large", content);
  EXPECT_EQ(sum_of_file(path).xxh3, checksum_of(content));
  EXPECT_EQ(sum_of_file(path).bytes, content.size());

  content.back() = 'D';
  EXPECT_NE(sum_of_file(path).xxh3, checksum_of(content));
}

TEST(Damage, AMissingFileIsNamed) {
  const TemporaryFolder folder;
  const fs::path whole = saved_once(folder.path());
  for (const std::string& name : files_of(whole)) {
    SCOPED_TRACE(name);
    fs::rename(whole / name, folder.path() / "aside");
    expect_refused(whole, name);
    fs::rename(folder.path() / "aside", whole / name);
  }
}

TEST(Damage, FilesOfAnotherCheckpointAreNamed) {
  const TemporaryFolder folder;
  LoneRun run(folder.path());
  run.step();
  const fs::path first = run.accelerator.save_state();
  run.step();
  const fs::path second = run.accelerator.save_state();
  for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
    fs::copy_file(
        first / name, second / name, fs::copy_options::overwrite_existing);
    expect_refused(second, name);
  }
  fs::copy_file(
      first / kManifestFile,
      second / kManifestFile,
      fs::copy_options::overwrite_existing);
  fs::remove(second / "model.safetensors");
  expect_refused(second, "model.safetensors is missing");
}

TEST(Damage, AnEditedManifestIsNoticed) {
  const TemporaryFolder folder;
  const fs::path whole = saved_once(folder.path());
  std::ifstream in(whole / kManifestFile);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  text.replace(text.find("\"step\": 1"), 9, "\"step\": 9");
  std::ofstream(whole / kManifestFile) << text;

  expect_refused(whole, "was changed after it was written");
}

TEST(Damage, LinksOutOfTheFolderAreRefused) {
  const TemporaryFolder folder;
  const fs::path whole = saved_once(folder.path());
  fs::rename(whole / "model.safetensors", folder.path() / "outside");
  fs::create_symlink(folder.path() / "outside", whole / "model.safetensors");

  expect_refused(whole, "model.safetensors is a link, not a file");
}

TEST(Damage, ALinkedManifestIsRefused) {
  const TemporaryFolder folder;
  const fs::path whole = saved_once(folder.path());
  fs::rename(whole / kManifestFile, folder.path() / "outside");
  fs::create_symlink(folder.path() / "outside", whole / kManifestFile);

  expect_refused(whole, "manifest.json is a link, not a file");
}

TEST(Damage, ANewerFormatIsRefusedByName) {
  const TemporaryFolder folder;
  const fs::path whole = saved_once(folder.path());
  Manifest manifest = read_manifest(whole);
  manifest.major = 2;
  std::ofstream(whole / kManifestFile) << manifest.to_json();

  expect_refused(
      whole, "this checkpoint has format 2.0, this build reads up to 1.x");
}

TEST(Damage, TheNewestWholeCheckpointIsTakenAndTheOthersNamed) {
  const TemporaryFolder folder;
  LoneRun run(folder.path());
  for (int i = 0; i < 3; ++i) {
    run.step();
    run.accelerator.save_state();
  }
  const fs::path checkpoints = folder.path() / "checkpoints";
  flip_bit(checkpoints / "checkpoint_2" / "model.safetensors", 3000);
  fs::create_directory(checkpoints / "checkpoint_7");

  LoneRun next(folder.path());
  const LoadStateReport report = next.accelerator.load_state();

  EXPECT_EQ(report.path, checkpoints / "checkpoint_1");
  EXPECT_EQ(report.step, 2);
  ASSERT_EQ(report.passed_over.size(), 2U);
  EXPECT_THAT(report.passed_over[0], HasSubstr("checkpoint_7"));
  EXPECT_THAT(report.passed_over[1], HasSubstr("model.safetensors"));
  // The next one gets a number that is free.
  next.step();
  EXPECT_EQ(next.accelerator.save_state(), checkpoints / "checkpoint_3");
}

TEST(Misfit, ListsWhatDiffersAndChangesNothing) {
  const TemporaryFolder folder;
  const fs::path whole = saved_once(folder.path());
  LoneRun run(folder.path(), /*width=*/161);
  const at::Tensor before = run.net->weight.detach().clone();

  EXPECT_THAT(
      message_of<FormatError>([&] { run.accelerator.load_state(whole); }),
      HasSubstr(
          "model: `weight` is Float[30, 160], in this run Float[30, 161]"));
  EXPECT_TRUE(at::equal(run.net->weight, before));
}

TEST(Misfit, IsLeftOutWhenAsked) {
  const TemporaryFolder folder;
  const fs::path whole = saved_once(folder.path());
  const TensorMap saved = load_safetensors(whole / "model.safetensors");
  LoneRun run(folder.path(), /*width=*/161);

  const LoadStateReport report =
      run.accelerator.load_state(whole, {.strict = false});

  EXPECT_TRUE(at::equal(run.net->bias, saved.at("bias")));
  EXPECT_THAT(
      report.left_out,
      testing::Contains(HasSubstr("model: `weight` is Float[30, 160]")));
  EXPECT_THAT(report.left_out, testing::Contains(HasSubstr("optimizer")));
}

/// Refuses what it is given.
struct Stubborn {
  Json state_dict() const { return Json("kept"); }
  void load_state_dict(const Json& state) {
    if (state.as_string() != "kept") {
      throw StateError("stubborn");
    }
  }
};
struct Counter {
  Json state_dict() const { return Json(value); }
  void load_state_dict(const Json& state) { value = state.as_integer(); }
  std::int64_t value = 0;
};
struct Other {
  Json state_dict() const { return Json("other"); }
  void load_state_dict(const Json&) {}
};

TEST(Misfit, OfARegisteredObjectUndoesWhatWasLoaded) {
  const TemporaryFolder folder;
  LoneRun first(folder.path());
  Counter five{5};
  Other other;
  first.accelerator.register_for_checkpointing(five, other);
  const fs::path whole = first.accelerator.save_state();

  LoneRun run(folder.path());
  Counter counter{1};
  Stubborn stubborn;
  run.accelerator.register_for_checkpointing(counter, stubborn);

  EXPECT_THAT(
      message_of<FormatError>([&] { run.accelerator.load_state(whole); }),
      HasSubstr("stubborn"));
  EXPECT_EQ(counter.value, 1);
}

TEST(Misfit, OfARegisteredObjectIsLeftOutWhenAsked) {
  const TemporaryFolder folder;
  LoneRun first(folder.path());
  Counter five{5};
  Other other;
  first.accelerator.register_for_checkpointing(other, five);
  const fs::path whole = first.accelerator.save_state();

  LoneRun run(folder.path());
  Counter counter{1};
  Stubborn stubborn;
  run.accelerator.register_for_checkpointing(stubborn, counter);
  const LoadStateReport report =
      run.accelerator.load_state(whole, {.strict = false});

  EXPECT_THAT(
      report.left_out, testing::ElementsAre(HasSubstr("registered 0: stub")));
  EXPECT_EQ(counter.value, 5);
}

/// Keeps a tensor.
struct Average {
  TensorMap state_dict() const { return {{"mean", value}}; }
  void load_state_dict(const TensorMap& state) { value = state.at("mean"); }
  at::Tensor value = at::ones({2});
};

TEST(Misfit, OfTheKindOrNumberOfRegisteredObjectsIsNamed) {
  const TemporaryFolder folder;
  LoneRun first(folder.path());
  Counter number{5};
  Average average;
  first.accelerator.register_for_checkpointing(number, average);
  const fs::path whole = first.accelerator.save_state();

  LoneRun swapped(folder.path());
  Counter one{1};
  Average mine{at::zeros({2})};
  swapped.accelerator.register_for_checkpointing(mine, one);
  EXPECT_THAT(
      message_of<FormatError>([&] { swapped.accelerator.load_state(whole); }),
      testing::AllOf(
          HasSubstr("registered 0 was saved as JSON, this run loads tensors"),
          HasSubstr("registered 1 was saved as tensors, this run loads JSON")));
  EXPECT_EQ(
      swapped.accelerator.load_state(whole, {.strict = false}).left_out.size(),
      2U);
  EXPECT_EQ(one.value, 1);
  EXPECT_TRUE(at::equal(mine.value, at::zeros({2})));

  LoneRun fewer(folder.path());
  fewer.accelerator.register_for_checkpointing(one);
  EXPECT_THAT(
      message_of<FormatError>([&] { fewer.accelerator.load_state(whole); }),
      HasSubstr("the checkpoint has 2 registered, this run has 1"));
  EXPECT_EQ(one.value, 1);
  fewer.accelerator.load_state(whole, {.strict = false});
  EXPECT_EQ(one.value, 5);
}

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

TEST(SaveState, ReplacesACheckpointButNothingElse) {
  const TemporaryFolder folder;
  LoneRun run(folder.path());
  const fs::path place = folder.path() / "here";
  run.accelerator.save_state(place);
  run.step();
  run.accelerator.save_state(place);
  EXPECT_EQ(read_manifest(place).step, 1);

  const fs::path taken = folder.path() / "taken";
  fs::create_directory(taken);
  std::ofstream(taken / "thesis.tex") << "years of work";
  EXPECT_THAT(
      message_of<IoError>([&] { run.accelerator.save_state(taken); }),
      HasSubstr("taken exists and is no checkpoint"));
  EXPECT_TRUE(fs::exists(taken / "thesis.tex"));
  EXPECT_EQ(
      files_of(folder.path()), (std::vector<std::string>{"here", "taken"}));
}

TEST(SaveState, RemovesWhatDeadWritersLeft) {
  const TemporaryFolder folder;
  const fs::path checkpoints = folder.path() / "checkpoints";
  fs::create_directories(checkpoints / "checkpoint.tmp-dead42");
  std::ofstream(checkpoints / "checkpoint.tmp-dead42" / ".lock") << "";
  const StagedFolder alive(checkpoints);

  saved_once(folder.path());

  EXPECT_FALSE(fs::exists(checkpoints / "checkpoint.tmp-dead42"));
  EXPECT_TRUE(fs::exists(alive.path()));
}

/// A run that keeps few checkpoints and begins to count at 0.
std::vector<fs::path> save_some(const fs::path& folder, int limit, int saves) {
  Accelerator accelerator(
      PartialState(Group()),
      {.project_config = ProjectConfiguration{
           .project_dir = folder,
           .automatic_checkpoint_naming = true,
           .total_limit = limit}});
  torch::nn::Linear net(3, 2);
  accelerator.prepare(net);
  std::vector<fs::path> paths;
  for (int i = 0; i < saves; ++i) {
    paths.push_back(accelerator.save_state({.blocking = i % 2 == 0}));
    accelerator.wait_for_checkpoint();
    EXPECT_TRUE(fs::exists(paths.back())) << paths.back();
  }
  return paths;
}

// A run that does not load begins at 0, and must not lose what it saves to
// the checkpoints of an earlier one.
TEST(TotalLimit, CountsOnFromWhatIsThere) {
  for (const int limit : {1, 2}) {
    const TemporaryFolder folder;
    save_some(folder.path(), limit, 3);
    const auto paths = save_some(folder.path(), limit, 2);
    EXPECT_EQ(paths[0].filename(), "checkpoint_3");
    EXPECT_EQ(paths[1].filename(), "checkpoint_4");
    EXPECT_EQ(
        list_checkpoints(folder.path() / "checkpoints").size(),
        static_cast<std::size_t>(limit));
  }
}

TEST(TotalLimit, KeepsTheNewOneWhereOthersAreDamaged) {
  const TemporaryFolder folder;
  for (const fs::path& path : save_some(folder.path(), 2, 2)) {
    flip_bit(
        path / "model.safetensors",
        fs::file_size(path / "model.safetensors") - 1);
  }
  const fs::path whole = save_some(folder.path(), 2, 1)[0];

  EXPECT_TRUE(verify_checkpoint(whole, read_manifest(whole)).empty());
}

TEST(Pruning, CountsWhatIsWholeToTheLastByte) {
  const TemporaryFolder folder;
  const auto paths = save_some(folder.path(), 9, 3);
  flip_bit(
      paths[2] / "model.safetensors",
      fs::file_size(paths[2] / "model.safetensors") - 1);

  const auto removed = prune_checkpoints(
      folder.path() / "checkpoints", {.keep = 1, .checksums = true});

  EXPECT_EQ(removed, std::vector<fs::path>{paths[0]});
  EXPECT_TRUE(fs::exists(paths[1]));
  EXPECT_TRUE(fs::exists(paths[2]));
}

TEST(Pruning, LeavesLinksAndWhatTheyPointTo) {
  const TemporaryFolder folder;
  const TemporaryFolder elsewhere;
  const fs::path best = saved_once(elsewhere.path());
  save_some(folder.path(), 9, 2);
  const fs::path link = folder.path() / "checkpoints" / "checkpoint_best";
  fs::create_directory_symlink(best, link);

  save_some(folder.path(), 1, 1);
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_TRUE(verify_checkpoint(best, read_manifest(best)).empty());

  remove_folder(link);
  EXPECT_FALSE(fs::exists(fs::symlink_status(link)));
  EXPECT_TRUE(verify_checkpoint(best, read_manifest(best)).empty());
}

// `save_state(folder)` writes beside whatever the user keeps there.
TEST(SaveState, LeavesFoldersThatOnlyLookTemporary) {
  const TemporaryFolder folder;
  for (const char* name :
       {"thesis.tmp-old", "checkpoint.tmp-", "a.tmp-removed-b"}) {
    fs::create_directory(folder.path() / name);
    std::ofstream(folder.path() / name / ".lock") << "";
    std::ofstream(folder.path() / name / "work.txt") << "years";
  }

  LoneRun run(folder.path());
  run.accelerator.save_state(folder.path() / "c");

  for (const char* name :
       {"thesis.tmp-old", "checkpoint.tmp-", "a.tmp-removed-b"}) {
    EXPECT_TRUE(fs::exists(folder.path() / name / "work.txt")) << name;
  }
}

TEST(SaveEvery, SavesWhenSoManyStepsHavePassed) {
  const TemporaryFolder folder;
  LoneRun run(folder.path());
  auto save = run.accelerator.save_every({.steps = 3, .blocking = true});
  std::vector<bool> saved;
  for (int step = 0; step < 7; ++step) {
    run.step();
    saved.push_back(save());
  }

  EXPECT_EQ(
      saved,
      (std::vector<bool>{false, false, true, false, false, true, false}));
  std::vector<std::int64_t> steps;
  for (const auto& entry : list_checkpoints(folder.path() / "checkpoints")) {
    steps.push_back(entry.manifest->step);
  }
  EXPECT_EQ(steps, (std::vector<std::int64_t>{3, 6}));
}

TEST(SaveEvery, SavesWhenTheTimeHasPassed) {
  const TemporaryFolder folder;
  LoneRun run(folder.path());
  auto at_once = run.accelerator.save_every({.minutes = 1e-9});
  auto not_today = run.accelerator.save_every({.minutes = 1e6});

  EXPECT_FALSE(not_today());
  EXPECT_TRUE(at_once());
  run.accelerator.wait_for_checkpoint();
  EXPECT_EQ(list_checkpoints(folder.path() / "checkpoints").size(), 1U);
}

TEST(SaveEvery, RefusesWhatCannotWork) {
  const TemporaryFolder folder;
  LoneRun run(folder.path());
  const auto message = [&](const SaveEveryOptions& options) {
    return message_of<ArgumentError>(
        [&] { static_cast<void>(run.accelerator.save_every(options)); });
  };
  EXPECT_THAT(message({}), HasSubstr("needs `steps` or `minutes`"));
  EXPECT_THAT(message({.steps = 0}), HasSubstr("steps is 0"));
  EXPECT_THAT(message({.minutes = -1}), HasSubstr("minutes is -1"));
}

struct BadProject {
  AcceleratorOptions options;
  const char* text;
};

TEST(ProjectConfiguration, RefusesWhatCannotWork) {
  const std::vector<BadProject> cases{
      {{.project_config = ProjectConfiguration{.iteration = -1}},
       "iteration is -1"},
      {{.project_config =
            ProjectConfiguration{
                .project_dir = "x",
                .automatic_checkpoint_naming = true,
                .total_limit = 0}},
       "total_limit is 0"},
      {{.project_config = ProjectConfiguration{.total_limit = 2}},
       "total_limit without automatic_checkpoint_naming"},
      {{.project_config =
            ProjectConfiguration{.automatic_checkpoint_naming = true}},
       "automatic_checkpoint_naming without project_dir"},
      {{.project_dir = "a",
        .project_config = ProjectConfiguration{.project_dir = "b"}},
       "project_dir is a, but that of project_config is b"},
  };
  for (const auto& [options, text] : cases) {
    EXPECT_THAT(
        message_of<ArgumentError>([&] {
          const Accelerator accelerator{PartialState(Group()), options};
        }),
        HasSubstr(text));
  }
  Accelerator plain{PartialState(Group()), {}};
  EXPECT_THAT(
      message_of<StateError>([&] { plain.save_state(); }),
      HasSubstr("no folder was given"));
  EXPECT_THAT(
      message_of<StateError>([&] { plain.load_state(); }),
      HasSubstr("no folder was given"));
  EXPECT_THAT(
      message_of<Error>([&] { plain.load_state("/nowhere"); }),
      HasSubstr("/nowhere"));
}

}  // namespace
}  // namespace accelerate
