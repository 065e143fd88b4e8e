// SPDX-License-Identifier: Apache-2.0
// Checkpoints that do not fit the run.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/optim.h>

#include "accelerate/error.h"
#include "accelerate/lr_scheduler.h"
#include "accelerate/safetensors.h"
#include "support/message_of.h"
#include "support/single_process_run.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(CheckpointMismatch, IsListedAndChangesNothing) {
  const TemporaryDirectory folder;
  const fs::path checkpoint = save_one_checkpoint(folder.path());
  SingleProcessRun run(folder.path(), /*width=*/161);
  const at::Tensor before = run.net->weight.detach().clone();

  EXPECT_THAT(
      message_of<FormatError>([&] { run.accelerator.load_state(checkpoint); }),
      HasSubstr("model: weight `weight` is Float[30, 160] in the checkpoint, "
                "but Float[30, 161] in this run"));
  EXPECT_TRUE(at::equal(run.net->weight, before));
}

TEST(CheckpointMismatch, IsSkippedWithoutStrict) {
  const TemporaryDirectory folder;
  const fs::path checkpoint = save_one_checkpoint(folder.path());
  const TensorMap saved = load_safetensors(checkpoint / "model.safetensors");
  SingleProcessRun run(folder.path(), /*width=*/161);

  const LoadStateReport report =
      run.accelerator.load_state(checkpoint, {.strict = false});

  EXPECT_TRUE(at::equal(run.net->bias, saved.at("bias")));
  EXPECT_THAT(
      report.left_out,
      testing::Contains(HasSubstr("model: weight `weight` is Float[30, 160]")));
  EXPECT_THAT(report.left_out, testing::Contains(HasSubstr("optimizer")));
}

/// A model with the given element type, trained for one step or not at all.
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

TEST(CheckpointMismatch, OfWeightTypesIsReportedAndConvertedWithoutStrict) {
  const TemporaryDirectory folder;
  TypedRun first(at::kDouble);
  first.step();
  const fs::path saved = first.accelerator.save_state(folder.path() / "c");

  TypedRun run(at::kFloat);
  const at::Tensor before = run.net->weight.detach().clone();
  EXPECT_THAT(
      message_of<FormatError>([&] { run.accelerator.load_state(saved); }),
      testing::AllOf(
          HasSubstr("model: weight `weight` is Double[3, 4] in the "
                    "checkpoint, but Float[3, 4] in this run"),
          HasSubstr("model: weight `bias` is Double[3] in the checkpoint, but "
                    "Float[3] in this run")));
  EXPECT_TRUE(at::equal(run.net->weight, before));

  const auto report = run.accelerator.load_state(saved, {.strict = false});
  EXPECT_THAT(
      report.left_out,
      testing::IsSupersetOf(
          {"model: weight `bias` is Double[3] in the checkpoint, but Float[3] "
           "in this run",
           "model: weight `weight` is Double[3, 4] in the checkpoint, but "
           "Float[3, 4] in this run"}));
  EXPECT_TRUE(at::equal(run.net->weight, first.net->weight.to(at::kFloat)));
  EXPECT_EQ(run.net->weight.scalar_type(), at::kFloat);
  run.step();
  EXPECT_TRUE(run.net->weight.isfinite().all().item<bool>());
}

/// A run with registered random states of these names, all of them 1.
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

TEST(CheckpointMismatch, OfRandomStateNamesIsReported) {
  const TemporaryDirectory folder;
  RandomRun first({"one", "two"});
  first.values["one"] = 5;
  const fs::path saved = first.accelerator.save_state(folder.path() / "c");

  RandomRun run({"one", "three"});
  constexpr const char* kText =
      "random state `three`: rank 0 of the saved run had no such state";
  EXPECT_THAT(
      message_of<FormatError>([&] { run.accelerator.load_state(saved); }),
      HasSubstr(kText));
  EXPECT_EQ(run.values["one"], 1);
  EXPECT_THAT(
      run.accelerator.load_state(saved, {.strict = false}).left_out,
      testing::ElementsAre(kText));
  EXPECT_EQ(run.values["one"], 5);
}

// A checkpoint of a C++ program is loaded in Python, which registers its own
// random states.
TEST(CheckpointMismatch, OfRandomStatesThatWereNotSavedIsReported) {
  const TemporaryDirectory folder;
  RandomRun first({});
  const fs::path saved = first.accelerator.save_state(folder.path() / "c");

  RandomRun run({"one"});
  EXPECT_THAT(
      run.accelerator.load_state(saved).derived,
      testing::ElementsAre("random state `one`: rank 0 of the saved run had no "
                           "such state, so it is unchanged"));
  EXPECT_EQ(run.values["one"], 1);
}

/// Throws for any state.
struct RefusesState {
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

TEST(CheckpointMismatch, OfARegisteredObjectUndoesTheLoad) {
  const TemporaryDirectory folder;
  SingleProcessRun first(folder.path());
  Counter five{5};
  Other other;
  first.accelerator.register_for_checkpointing(five, other);
  const fs::path checkpoint = first.accelerator.save_state();

  SingleProcessRun run(folder.path());
  Counter counter{1};
  RefusesState stubborn;
  run.accelerator.register_for_checkpointing(counter, stubborn);

  EXPECT_THAT(
      message_of<FormatError>([&] { run.accelerator.load_state(checkpoint); }),
      HasSubstr("stubborn"));
  EXPECT_EQ(counter.value, 1);
}

TEST(CheckpointMismatch, OfARegisteredObjectIsSkippedWithoutStrict) {
  const TemporaryDirectory folder;
  SingleProcessRun first(folder.path());
  Counter five{5};
  Other other;
  first.accelerator.register_for_checkpointing(other, five);
  const fs::path checkpoint = first.accelerator.save_state();

  SingleProcessRun run(folder.path());
  Counter counter{1};
  RefusesState stubborn;
  run.accelerator.register_for_checkpointing(stubborn, counter);
  const LoadStateReport report =
      run.accelerator.load_state(checkpoint, {.strict = false});

  EXPECT_THAT(
      report.left_out,
      testing::ElementsAre(HasSubstr("registered object 0: stub")));
  EXPECT_EQ(counter.value, 5);
}

/// An object whose state is a tensor.
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
  const TemporaryDirectory folder;
  SingleProcessRun first(folder.path());
  BestLoss best{INFINITY};
  first.accelerator.register_for_checkpointing(best);
  const fs::path checkpoint = first.accelerator.save_state();
  best.value = 1;
  first.accelerator.load_state(checkpoint);
  EXPECT_EQ(best.value, INFINITY);
}

TEST(CheckpointMismatch, OfTypeOrNumberOfRegisteredObjectsIsReported) {
  const TemporaryDirectory folder;
  SingleProcessRun first(folder.path());
  Counter number{5};
  Average saved_average;
  first.accelerator.register_for_checkpointing(number, saved_average);
  const fs::path checkpoint = first.accelerator.save_state();

  SingleProcessRun swapped(folder.path());
  Counter counter{1};
  Average average{at::zeros({2})};
  swapped.accelerator.register_for_checkpointing(average, counter);
  EXPECT_THAT(
      message_of<FormatError>(
          [&] { swapped.accelerator.load_state(checkpoint); }),
      testing::AllOf(
          HasSubstr("registered object 0 was saved as JSON, but this run loads "
                    "tensors"),
          HasSubstr(
              "registered object 1 was saved as tensors, but this run loads "
              "JSON")));
  EXPECT_EQ(
      swapped.accelerator.load_state(checkpoint, {.strict = false})
          .left_out.size(),
      2U);
  EXPECT_EQ(counter.value, 1);
  EXPECT_TRUE(at::equal(average.value, at::zeros({2})));

  SingleProcessRun fewer(folder.path());
  fewer.accelerator.register_for_checkpointing(counter);
  EXPECT_THAT(
      message_of<FormatError>(
          [&] { fewer.accelerator.load_state(checkpoint); }),
      HasSubstr("different numbers of registered objects: 2 in the checkpoint, "
                "1 in this run"));
  EXPECT_EQ(counter.value, 1);
  fewer.accelerator.load_state(checkpoint, {.strict = false});
  EXPECT_EQ(counter.value, 5);
}

}  // namespace
}  // namespace accelerate
