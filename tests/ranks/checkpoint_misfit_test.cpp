// SPDX-License-Identifier: Apache-2.0
// Checkpoints that do not fit the run.
#include <cmath>

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

/// A model of some type, trained once or not yet.
struct TypedRun {
  explicit TypedRun(at::ScalarType type) {
    net->to(type);
    accelerator.prepare(net, optimizer);
  }

  void step() {
    const auto rows = at::ones({2, 4}, net->weight.options());
    accelerator.backward(net->forward(rows).sum());
    optimizer.step();
    optimizer.zero_grad();
  }

  Accelerator accelerator{PartialState(Group()), {}};
  torch::nn::Linear net{4, 3};
  AdamW optimizer{net->parameters(), 0.1};
};

TEST(Misfit, OfTheTypeOfWeightsIsNamedAndConvertedWhenAsked) {
  const TemporaryFolder folder;
  TypedRun first(at::kDouble);
  first.step();
  const fs::path saved = first.accelerator.save_state(folder.path() / "c");

  TypedRun run(at::kFloat);
  const at::Tensor before = run.net->weight.detach().clone();
  EXPECT_THAT(
      message_of<FormatError>([&] { run.accelerator.load_state(saved); }),
      testing::AllOf(
          HasSubstr("model: `weight` is Double[3, 4], in this run Float[3, 4]"),
          HasSubstr("model: `bias` is Double[3], in this run Float[3]")));
  EXPECT_TRUE(at::equal(run.net->weight, before));

  const auto report = run.accelerator.load_state(saved, {.strict = false});
  EXPECT_THAT(
      report.left_out,
      testing::IsSupersetOf(
          {"model: `bias` is Double[3], in this run Float[3]",
           "model: `weight` is Double[3, 4], in this run Float[3, 4]"}));
  EXPECT_TRUE(at::equal(run.net->weight, first.net->weight.to(at::kFloat)));
  EXPECT_EQ(run.net->weight.scalar_type(), at::kFloat);
  run.step();
  EXPECT_TRUE(run.net->weight.isfinite().all().item<bool>());
}

/// One run with random numbers of its own under these names, all of them 1.
struct RandomRun {
  explicit RandomRun(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      std::int64_t& value = values[name] = 1;
      accelerator.register_random_state(
          name,
          [&value] { return at::full({1}, value, at::kByte); },
          [&value](const at::Tensor& t) { value = t.item<std::int64_t>(); });
    }
  }

  Accelerator accelerator{PartialState(Group()), {}};
  std::map<std::string, std::int64_t> values;
};

TEST(Misfit, OfTheNamesOfRandomNumbersIsNamed) {
  const TemporaryFolder folder;
  RandomRun first({"one", "two"});
  first.values["one"] = 5;
  const fs::path saved = first.accelerator.save_state(folder.path() / "c");

  RandomRun run({"one", "three"});
  constexpr const char* kText =
      "random state `three`: rank 0 of the saved run had none";
  EXPECT_THAT(
      message_of<FormatError>([&] { run.accelerator.load_state(saved); }),
      HasSubstr(kText));
  EXPECT_EQ(run.values["one"], 1);
  EXPECT_THAT(
      run.accelerator.load_state(saved, {.strict = false}).left_out,
      testing::ElementsAre(kText));
  EXPECT_EQ(run.values["one"], 5);
}

// A checkpoint of a C++ program is loaded in Python, which registers its own.
TEST(Misfit, OfRandomNumbersThatTheSavedRunDidNotKnowIsReported) {
  const TemporaryFolder folder;
  RandomRun first({});
  const fs::path saved = first.accelerator.save_state(folder.path() / "c");

  RandomRun run({"one"});
  EXPECT_THAT(
      run.accelerator.load_state(saved).derived,
      testing::ElementsAre(
          "random state `one`: rank 0 of the saved run had none, so it stays "
          "as it is"));
  EXPECT_EQ(run.values["one"], 1);
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

struct BestLoss {
  Json state_dict() const { return Json::object({{"best", value}}); }
  void load_state_dict(const Json& state) {
    value = state.at("best").as_double();
  }
  double value;
};

TEST(RegisteredObject, MayHaveANumberThatIsNotFinite) {
  const TemporaryFolder folder;
  LoneRun first(folder.path());
  BestLoss best{INFINITY};
  first.accelerator.register_for_checkpointing(best);
  const fs::path whole = first.accelerator.save_state();
  best.value = 1;
  first.accelerator.load_state(whole);
  EXPECT_EQ(best.value, INFINITY);
}

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
