// SPDX-License-Identifier: Apache-2.0
// Models and single files that are saved without the rest of a run.
#include "accelerate/saving.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/nn.h>

#include "accelerate/accelerator.h"
#include "accelerate/error.h"
#include "accelerate/safetensors.h"
#include "accelerate/tensor_map.h"
#include "support/message_of.h"
#include "support/run_on_ranks.h"
#include "support/temporary_directory.h"
#include "support/training.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::set<std::string> files_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

TEST(GetStateDict, HasParametersAndBuffersUnderTheirNames) {
  torch::nn::Sequential net(torch::nn::Linear(2, 3), torch::nn::BatchNorm1d(3));

  const TensorMap state = Accelerator::get_state_dict(net);

  ASSERT_TRUE(state.contains("1.running_mean"));
  EXPECT_TRUE(state.at("0.weight").is_same(net->parameters()[0]));
  EXPECT_EQ(state.size(), 7U);
}

TEST(SaveModel, WritesLoadableFiles) {
  run_on_ranks(2, quick(Backend::shm), [](Group& group) {
    static const TemporaryDirectory folder;
    Accelerator accelerator{PartialState(group), {}};
    Net net = make_net();
    accelerator.prepare(net);

    if (group.rank() == 0) {
      testing::internal::CaptureStderr();
    }
    accelerator.save_model(net, folder.path() / "deep" / "m");
    accelerator.wait_for_everyone();
    if (group.rank() == 0) {
      EXPECT_EQ(
          testing::internal::GetCapturedStderr(),
          "warning: save_model wrote tied weights only once: `second.weight` "
          "also holds the values of `tied`\n");
    }

    const TensorMap loaded = load_sharded(folder.path() / "deep" / "m");
    const TensorMap expected = accelerator.get_state_dict(net);
    ASSERT_EQ(loaded.size(), expected.size());
    for (const auto& [name, tensor] : expected) {
      EXPECT_TRUE(at::equal(loaded.at(name), tensor)) << name;
    }
    const SafetensorsFile file(
        folder.path() / "deep" / "m" / "model.safetensors");
    EXPECT_EQ(file.metadata().at("format"), "pt");
    // `tied` is `second.weight`, and is stored once.
    EXPECT_NE(file.contains("tied"), file.contains("second.weight"));
    accelerator.wait_for_everyone();
  });
}

TEST(SaveModel, SplitsModelsLargerThanTheMaximumFileSize) {
  const TemporaryDirectory folder;
  Accelerator accelerator{PartialState(Group()), {}};
  torch::nn::Sequential net(
      torch::nn::Linear(100, 10), torch::nn::Linear(10, 100));

  accelerator.save_model(net, folder.path(), {.max_shard_size = "5KB"});
  EXPECT_THAT(
      files_in(folder.path()),
      testing::ElementsAre(
          "model-00001-of-00002.safetensors",
          "model-00002-of-00002.safetensors",
          "model.safetensors.index.json"));
  const Json index = load<Json>(folder.path() / "model.safetensors.index.json");
  EXPECT_EQ(index.at("metadata").at("total_size").as_integer(), 8440);
  EXPECT_EQ(index.at("weight_map").as_object().size(), 4U);

  // Files that remain from the first save would be read instead of the files of
  // the second save.
  accelerator.save_model(net, folder.path());
  EXPECT_THAT(
      files_in(folder.path()), testing::ElementsAre("model.safetensors"));
}

TEST(SaveModel, RefusesModelsThatCannotBeSaved) {
  const TemporaryDirectory folder;
  Accelerator accelerator{PartialState(Group()), {}};
  torch::nn::Linear net(2, 2);
  folder.write("file", "");
  EXPECT_THAT(
      message_of<ArgumentError>(
          [&] { accelerator.save_model(net, folder.path() / "file"); }),
      HasSubstr("/file is a file"));

  net->register_parameter("late", at::empty({2}, at::kMeta));
  EXPECT_THAT(
      message_of<StateError>(
          [&] { accelerator.save_model(net, folder.path() / "m"); }),
      HasSubstr(
          "these tensors are on the `meta` device and have no values: `late`"));
  EXPECT_FALSE(fs::exists(folder.path() / "m"));
}

TEST(Save, WritesOnlyOnTheMainProcess) {
  run_on_ranks(2, quick(Backend::shm), [](Group& group) {
    static const TemporaryDirectory folder;
    Accelerator accelerator{PartialState(group), {}};
    const auto own = std::to_string(group.rank());

    accelerator.save(
        TensorMap{{"x", at::full({2}, group.rank())}}, folder.path() / own);
    accelerator.save(Json(group.rank()), folder.path() / ("j" + own));
    accelerator.wait_for_everyone();

    EXPECT_EQ(files_in(folder.path()), (std::set<std::string>{"0", "j0"}));
    EXPECT_EQ(load(folder.path() / "0").at("x")[1].item<float>(), 0);
    EXPECT_EQ(load<Json>(folder.path() / "j0").as_integer(), 0);
    accelerator.wait_for_everyone();
  });
}

TEST(Load, NeverReadsAPickle) {
  const TemporaryDirectory folder;
  for (const std::string& begin :
       {std::string("PK\x03\x04\x00\x00\x08\x08\x00\x00", 10),
        std::string("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j", 11)}) {
    const auto path = folder.write("model.pt", begin + std::string(100, 'x'));
    EXPECT_THAT(
        message_of<FormatError>([&] { (void)load(path); }),
        HasSubstr("is a pickle file, which could execute code"));
  }
  EXPECT_THROW((void)load(folder.path() / "none"), IoError);
}

struct Count {
  Json state_dict() const { return Json(value); }
  void load_state_dict(const Json& state) { value = state.as_integer(); }
  std::int64_t value = 0;
};

TEST(FreeMemory, KeepsRegisteredObjectsAndHooks) {
  const TemporaryDirectory folder;
  Accelerator accelerator{PartialState(Group()), {}};
  Count count{7};
  int called = 0;
  accelerator.register_for_checkpointing(count);
  {
    const Region hook = accelerator.register_save_state_pre_hook(
        [&](auto&, const fs::path&) { ++called; });

    accelerator.free_memory();
    accelerator.save_state(folder.path() / "c");
    EXPECT_EQ(called, 1);
  }
  count.value = 0;
  accelerator.free_memory();
  accelerator.load_state(folder.path() / "c");
  EXPECT_EQ(count.value, 7);
  accelerator.save_state(folder.path() / "d");
  EXPECT_EQ(called, 1);
}

}  // namespace
}  // namespace accelerate
