// SPDX-License-Identifier: Apache-2.0
#include "accelerate/safetensors.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "accelerate/json.h"
#include "base/files.h"
#include "support/message_of.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

std::vector<std::string> files_of(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

/// Every element type that LibTorch and safetensors support.
const std::vector<at::ScalarType>& dtypes() {
  static const std::vector<at::ScalarType> all = {
      at::kBool,
      at::kByte,
      at::kChar,
      at::kShort,
      at::kUInt16,
      at::kHalf,
      at::kBFloat16,
      at::kInt,
      at::kUInt32,
      at::kFloat,
      at::kComplexFloat,
      at::kDouble,
      at::kLong,
      at::kUInt64,
      at::kFloat8_e4m3fn,
      at::kFloat8_e5m2,
      at::kFloat8_e8m0fnu,
      at::kFloat8_e4m3fnuz,
      at::kFloat8_e5m2fnuz,
      at::kFloat4_e2m1fn_x2};
  return all;
}

at::Tensor bytes_of(const at::Tensor& tensor) {
  return at::from_blob(
             tensor.data_ptr(),
             {static_cast<std::int64_t>(tensor.nbytes())},
             at::kByte)
      .clone();
}

TEST(Safetensors, PreservesEveryTypeBitForBit) {
  const fs::path path = fresh_folder() / "a.safetensors";
  TensorMap tensors;
  for (const at::ScalarType dtype : dtypes()) {
    const auto size = static_cast<std::int64_t>(c10::elementSize(dtype));
    const at::Tensor bytes = dtype == at::kBool
                                 ? at::randint(0, 2, {6}, at::kByte)
                                 : at::randint(0, 255, {6 * size}, at::kByte);
    tensors[c10::toString(dtype)] = bytes.view(dtype).view({2, 3}).clone();
  }

  save_safetensors(tensors, path);
  const TensorMap loaded = load_safetensors(path);

  ASSERT_EQ(loaded.size(), dtypes().size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(loaded.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_EQ(loaded.at(name).sizes(), tensor.sizes()) << name;
    EXPECT_TRUE(bytes_of(loaded.at(name)).equal(bytes_of(tensor))) << name;
  }
  EXPECT_EQ(SafetensorsFile(path).metadata().at("format"), "pt");
}

TEST(Safetensors, KeepsScalarsEmptyAndStridedTensors) {
  const fs::path path = fresh_folder() / "a.safetensors";
  const at::Tensor matrix = at::arange(6.0).view({2, 3});

  save_safetensors(
      {{"scalar", at::scalar_tensor(1.5)},
       {"empty", at::empty({0, 3})},
       {"turned", matrix.t()}},
      path);
  const TensorMap loaded = load_safetensors(path);

  EXPECT_EQ(loaded.at("scalar").item<float>(), 1.5F);
  EXPECT_EQ(loaded.at("empty").sizes(), (std::vector<std::int64_t>{0, 3}));
  EXPECT_TRUE(loaded.at("turned").equal(matrix.t()));
}

TEST(Safetensors, ATensorOutlivesItsFile) {
  const fs::path path = fresh_folder() / "a.safetensors";
  save_safetensors({{"w", at::arange(1000.0)}}, path);

  const at::Tensor tensor = SafetensorsFile(path).tensor("w");
  fs::remove(path);

  EXPECT_EQ(tensor.sum().item<float>(), 499500.0F);
}

TEST(Safetensors, AWriteDoesNotReachTheFile) {
  const fs::path path = fresh_folder() / "a.safetensors";
  save_safetensors({{"w", at::zeros({4})}}, path);

  load_safetensors(path).at("w").fill_(7);

  EXPECT_EQ(load_safetensors(path).at("w").sum().item<float>(), 0.0F);
}

TEST(Safetensors, MapsTheFileWithoutACopy) {
  const fs::path path = fresh_folder() / "a.safetensors";
  save_safetensors({{"w", at::zeros({4})}}, path);

  const SafetensorsFile file(path);

  EXPECT_EQ(file.tensor("w").data_ptr(), file.tensor("w").data_ptr());
}

TEST(Safetensors, StoresTiedWeightsOnce) {
  const fs::path path = fresh_folder() / "a.safetensors";
  const at::Tensor weight = at::rand({64, 64});

  save_safetensors(
      {{"decoder", weight}, {"embedding", weight}, {"row", weight[0]}}, path);

  const SafetensorsFile file(path);
  EXPECT_THAT(file.names(), ElementsAre("decoder", "row"));
  const TensorMap loaded = load_safetensors(path);
  EXPECT_EQ(loaded.at("embedding").data_ptr(), loaded.at("decoder").data_ptr());
  EXPECT_TRUE(loaded.at("row").equal(weight[0]));
}

TEST(Safetensors, RefusesUnsupportedTensors) {
  const fs::path path = fresh_folder() / "a.safetensors";

  EXPECT_EQ(
      message_of<ArgumentError>(
          [&] { save_safetensors({{"w", at::Tensor()}}, path); }),
      "tensor `w` is undefined, but a safetensors file holds only dense "
      "tensors");
  EXPECT_EQ(
      message_of<ArgumentError>([&] {
        save_safetensors({{"w", at::zeros({1}, at::kComplexDouble)}}, path);
      }),
      "tensor `w` is of type ComplexDouble, which the safetensors format does "
      "not "
      "support");
  EXPECT_THAT(files_of(path.parent_path()), ElementsAre());
}

TEST(Safetensors, ReportsAMissingTensor) {
  const fs::path path = fresh_folder() / "a.safetensors";
  save_safetensors({{"w", at::zeros({1})}}, path);

  EXPECT_EQ(
      message_of<ArgumentError>(
          [&] { (void)SafetensorsFile(path).tensor("v"); }),
      path.string() + " has no tensor `v`");
}

TEST(Safetensors, CopiesAnUnalignedTensor) {
  const fs::path path = fresh_folder() / "a.safetensors";
  const std::string json =
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
      R"("b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})";
  std::string content(8, '\0');
  content[0] = static_cast<char>(json.size());
  const float value = 2.5F;
  content += json + "x";
  content.append(reinterpret_cast<const char*>(&value), 4);
  std::ofstream(path, std::ios::binary) << content;

  const at::Tensor tensor = load_safetensors(path).at("b");

  EXPECT_EQ(tensor.item<float>(), 2.5F);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % 4, 0U);
}

TensorMap three_tensors() {
  return {{"a", at::rand({10})}, {"b", at::rand({20})}, {"c", at::rand({5})}};
}

TEST(Sharded, IsOneFileWhenItFits) {
  const fs::path folder = fresh_folder();
  const TensorMap tensors = three_tensors();

  save_sharded(tensors, folder);

  EXPECT_THAT(files_of(folder), ElementsAre("model.safetensors"));
  EXPECT_TRUE(load_sharded(folder).at("b").equal(tensors.at("b")));
}

TEST(Sharded, SplitsAtTheSizeAndWritesAnIndex) {
  const fs::path folder = fresh_folder();
  const TensorMap tensors = three_tensors();

  save_sharded(tensors, folder, {.max_shard_size = 100});

  EXPECT_THAT(
      files_of(folder),
      ElementsAre(
          "model-00001-of-00002.safetensors",
          "model-00002-of-00002.safetensors",
          "model.safetensors.index.json"));
  const Json index =
      Json::parse(read_file(folder / "model.safetensors.index.json", 1 << 20));
  EXPECT_EQ(index.at("metadata").at("total_size").as_integer(), 140);
  EXPECT_EQ(
      index.at("weight_map").at("c").as_string(),
      "model-00002-of-00002.safetensors");
  const TensorMap loaded = load_sharded(folder);
  ASSERT_EQ(loaded.size(), 3U);
  for (const auto& [name, tensor] : tensors) {
    EXPECT_TRUE(loaded.at(name).equal(tensor)) << name;
  }
}

TEST(Sharded, ASecondSaveLeavesNothingOfTheFirst) {
  const fs::path folder = fresh_folder();
  save_sharded(three_tensors(), folder, {.max_shard_size = 40});

  save_sharded(three_tensors(), folder);

  EXPECT_THAT(files_of(folder), ElementsAre("model.safetensors"));
}

TEST(Sharded, KeepsTiedWeightsTogether) {
  const fs::path folder = fresh_folder();
  const at::Tensor weight = at::rand({30});

  save_sharded(
      {{"a", weight}, {"b", at::rand({30})}, {"c", weight}},
      folder,
      {.max_shard_size = 130});
  const TensorMap loaded = load_sharded(folder);

  EXPECT_EQ(loaded.at("a").data_ptr(), loaded.at("c").data_ptr());
}

struct BadIndex {
  const char* name;
  const char* map;
  const char* message;
};

class BadIndexes : public testing::TestWithParam<BadIndex> {};

TEST_P(BadIndexes, AreRefused) {
  const fs::path folder = fresh_folder();
  save_safetensors({{"a", at::zeros({1})}}, folder / "m1.safetensors");
  const fs::path index = folder / "model.safetensors.index.json";
  std::ofstream(index) << GetParam().map;

  EXPECT_EQ(
      message_of<FormatError>([&] { (void)load_sharded(folder); }),
      index.string() + ": " + GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Sharded,
    BadIndexes,
    testing::Values(
        BadIndex{"no_map", "{}", "byte 0: the object `weight_map` is missing"},
        BadIndex{
            "number",
            R"({"weight_map": {"a": 1}})",
            "byte 16: `a` is not mapped to a file name"},
        BadIndex{
            "parent",
            R"({"weight_map": {"a": "../m1.safetensors"}})",
            "byte 16: `a` is mapped to `../m1.safetensors`, which is not a "
            "file "
            "in this folder"},
        BadIndex{
            "absolute",
            R"({"weight_map": {"a": "/etc/passwd"}})",
            "byte 16: `a` is mapped to `/etc/passwd`, which is not a file in "
            "this folder"},
        BadIndex{
            "dots",
            R"({"weight_map": {"a": ".."}})",
            "byte 16: `a` is mapped to `..`, which is not a file in this "
            "folder"},
        BadIndex{
            "absent_tensor",
            R"({"weight_map": {"b": "m1.safetensors"}})",
            "`b` is mapped to `m1.safetensors`, which does not contain it"}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(Sharded, ReportsWhatAFolderLacks) {
  const fs::path folder = fresh_folder();
  std::ofstream(folder / "pytorch_model.bin") << "x";
  try {
    (void)load_sharded(folder);
    FAIL() << "no error";
  } catch (const IoError& error) {
    EXPECT_EQ(
        error.what(),
        folder.string() +
            " has neither model.safetensors nor "
            "model.safetensors.index.json");
    EXPECT_THAT(error.hint(), testing::HasSubstr("pickle"));
  }
}

}  // namespace
}  // namespace accelerate
