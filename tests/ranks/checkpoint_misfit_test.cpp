// SPDX-License-Identifier: Apache-2.0
// Checkpoints that do not fit the run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/optim.h>

#include "accelerate/error.h"
#include "accelerate/lr_scheduler.h"
#include "support/lone_run.h"
#include "support/message_of.h"
#include "support/temporary_folder.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

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

}  // namespace
}  // namespace accelerate
