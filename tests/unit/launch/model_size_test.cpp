// SPDX-License-Identifier: Apache-2.0
#include "launch/model_size.h"

#include <fstream>

#include <gtest/gtest.h>

#include "accelerate/error.h"

namespace accelerate {
namespace {

std::int64_t parameters_of(const char* config) {
  return size_from_config(Json::parse(config), "config.json").parameters();
}

// The published numbers of parameters of the models with these configs.
TEST(ModelSize, KnowsThePublishedModels) {
  EXPECT_EQ(
      parameters_of(R"({"model_type": "bert", "hidden_size": 768,
        "vocab_size": 28996, "max_position_embeddings": 512,
        "type_vocab_size": 2, "num_hidden_layers": 12,
        "intermediate_size": 3072})"),
      108310272);
  EXPECT_EQ(
      parameters_of(R"({"model_type": "distilbert", "dim": 768,
        "vocab_size": 30522, "max_position_embeddings": 512, "n_layers": 6,
        "hidden_dim": 3072})"),
      66362880);
  EXPECT_EQ(
      parameters_of(R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12,
        "n_positions": 1024, "vocab_size": 50257})"),
      124439808);
  EXPECT_EQ(
      parameters_of(R"({"model_type": "llama", "hidden_size": 4096,
        "vocab_size": 32000, "num_hidden_layers": 32,
        "num_attention_heads": 32, "intermediate_size": 11008})"),
      6738415616);
  EXPECT_EQ(
      parameters_of(R"({"model_type": "llama", "hidden_size": 2048,
        "vocab_size": 128256, "num_hidden_layers": 16, "head_dim": 64,
        "num_attention_heads": 32, "num_key_value_heads": 8,
        "intermediate_size": 8192, "tie_word_embeddings": true})"),
      1235814400);
  EXPECT_EQ(
      parameters_of(R"({"model_type": "mistral", "hidden_size": 4096,
        "vocab_size": 32000, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8,
        "intermediate_size": 14336})"),
      7241732096);
  EXPECT_EQ(
      parameters_of(R"({"model_type": "qwen2", "hidden_size": 896,
        "vocab_size": 151936, "num_hidden_layers": 24,
        "num_attention_heads": 14, "num_key_value_heads": 2,
        "intermediate_size": 4864, "tie_word_embeddings": true})"),
      494032768);
}

TEST(ModelSize, ReadsShapesFromSafetensors) {
  const std::string path = testing::TempDir() + "model.safetensors";
  const std::string header =
      R"({"__metadata__": {"format": "pt"},
          "a.weight": {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]},
          "a.bias": {"dtype": "F32", "shape": [4], "data_offsets": [48, 64]},
          "b": {"dtype": "F32", "shape": [], "data_offsets": [64, 68]}})";
  std::ofstream file(path, std::ios::binary);
  const std::uint64_t length = header.size();
  file.write(reinterpret_cast<const char*>(&length), 8);
  file << header << std::string(68, '\0');
  file.close();

  const ModelSize size = read_model_size(path);

  EXPECT_EQ(size.parameters(), 17);
  EXPECT_EQ(size.largest().name, "a");
  EXPECT_EQ(size.largest().parameters, 16);
}

TEST(ModelSize, RefusesAHeaderLongerThanTheFile) {
  const std::string path = testing::TempDir() + "bad.safetensors";
  std::ofstream(path, std::ios::binary) << "\xff\xff\xff\xff\xff\xff\xff\xff{}";

  EXPECT_THROW(read_model_size(path), FormatError);
}

TEST(ModelSize, NamesTheTypesItKnows) {
  try {
    (void)parameters_of(R"({"model_type": "mamba"})");
    FAIL() << "no error";
  } catch (const UnsupportedError& error) {
    EXPECT_STREQ(
        error.what(),
        "config.json: no rule for model_type `mamba`; there is one for bert, "
        "distilbert, gpt2, llama, mistral, qwen2, roberta");
  }
}

TEST(TrainingBytes, AreSharedOutByStage) {
  EXPECT_EQ(training_bytes(100, 0, 4).total(), 1600);
  EXPECT_EQ(training_bytes(100, 1, 4).total(), 1000);
  EXPECT_EQ(training_bytes(100, 2, 4).total(), 700);
  EXPECT_EQ(training_bytes(100, 3, 4).total(), 400);
}

}  // namespace
}  // namespace accelerate
