// SPDX-License-Identifier: Apache-2.0
#include "launch/model_size.h"

#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "support/temporary_directory.h"

namespace accelerate {
namespace {

std::int64_t parameters_of(const char* config) {
  return size_from_config(Json::parse(config), "config.json").parameters();
}

// The published numbers of parameters of these models.
TEST(ModelSize, MatchesPublishedModels) {
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

// The published numbers of parameters of these models, or the numbers of the
// Python classes.
TEST(ModelSize, CountsTheHeadThatArchitecturesNames) {
  const auto bert = [](const std::string& more) {
    return parameters_of((R"({"model_type": "bert", "hidden_size": 768,
        "vocab_size": 30522, "max_position_embeddings": 512,
        "type_vocab_size": 2, "num_hidden_layers": 12,
        "intermediate_size": 3072, "architectures": [)" +
                          more + "}")
                             .c_str());
  };
  EXPECT_EQ(bert(R"("BertModel"])"), 109482240);
  EXPECT_EQ(bert(R"("BertForMaskedLM"])"), 109514298);
  EXPECT_EQ(bert(R"("BertForPreTraining"])"), 110106428);
  EXPECT_EQ(bert(R"("BertForSequenceClassification"])"), 109483778);
  EXPECT_EQ(
      bert(R"("BertForSequenceClassification"],
        "id2label": {"0": "a", "1": "b", "2": "c"})"),
      109484547);
  EXPECT_EQ(bert(R"("BertForQuestionAnswering"])"), 108893186);
  EXPECT_EQ(
      parameters_of(R"({"model_type": "roberta", "hidden_size": 768,
        "vocab_size": 50265, "max_position_embeddings": 514,
        "type_vocab_size": 1, "num_hidden_layers": 12,
        "intermediate_size": 3072,
        "architectures": ["RobertaForSequenceClassification"]})"),
      124647170);
  EXPECT_EQ(
      parameters_of(R"({"model_type": "distilbert", "dim": 768,
        "vocab_size": 30522, "max_position_embeddings": 512, "n_layers": 6,
        "hidden_dim": 3072,
        "architectures": ["DistilBertForSequenceClassification"]})"),
      66955010);
  EXPECT_EQ(
      parameters_of(R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12,
        "n_positions": 1024, "vocab_size": 50257,
        "architectures": ["GPT2LMHeadModel"]})"),
      124439808);
  EXPECT_EQ(
      parameters_of(R"({"model_type": "llama", "hidden_size": 4096,
        "vocab_size": 32000, "num_hidden_layers": 32,
        "num_attention_heads": 32, "intermediate_size": 11008,
        "architectures": ["LlamaForSequenceClassification"]})"),
      6738415616 - 32000 * 4096 + 2 * 4096);
  EXPECT_THROW(bert(R"("BertForDreams"])"), UnsupportedError);
}

TEST(ModelSize, ReadsShapesFromSafetensors) {
  const std::string path = fresh_folder() / "model.safetensors";
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

TEST(ModelSize, RejectsAHeaderLongerThanTheFile) {
  const std::string path = fresh_folder() / "bad.safetensors";
  std::ofstream(path, std::ios::binary) << "\xff\xff\xff\xff\xff\xff\xff\xff{}";

  EXPECT_THROW(read_model_size(path), FormatError);
}

TEST(ModelSize, ListsTheSupportedTypes) {
  try {
    (void)parameters_of(R"({"model_type": "mamba"})");
    FAIL() << "no error";
  } catch (const UnsupportedError& error) {
    EXPECT_STREQ(
        error.what(),
        "config.json: model_type `mamba` is not supported; supported types: "
        "bert, distilbert, gpt2, llama, mistral, qwen2, roberta");
  }
}

TEST(TrainingBytes, AreShardedByZeroStage) {
  EXPECT_EQ(training_bytes(100, 4, 0, 4).total(), 1600);
  EXPECT_EQ(training_bytes(100, 4, 1, 4).total(), 1000);
  EXPECT_EQ(training_bytes(100, 4, 2, 4).total(), 700);
  EXPECT_EQ(training_bytes(100, 4, 3, 4).total(), 400);
}

TEST(TrainingBytes, ScaleWithTheDataType) {
  EXPECT_EQ(training_bytes(100, 2, 0, 1).total(), 800);
}

std::string error_of_config(const char* config) {
  try {
    (void)parameters_of(config);
  } catch (const FormatError& error) {
    return error.what();
  }
  return "no error";
}

TEST(ModelSize, RejectsUnrealisticNumbers) {
  EXPECT_EQ(
      error_of_config(R"({"model_type": "gpt2", "n_embd": 8, "vocab_size": 8,
        "n_positions": 8, "n_layer": 1000000000})"),
      "config.json: `n_layer` is 1000000000, not a whole number from 0 to "
      "65536");
  EXPECT_EQ(
      error_of_config(R"({"model_type": "gpt2", "n_embd": 4611686018427387904,
        "vocab_size": 8, "n_positions": 8, "n_layer": 1})"),
      "config.json: `n_embd` is 4611686018427387904, not a whole number from 0 "
      "to 100000000");
  EXPECT_EQ(
      error_of_config(R"({"model_type": "llama", "hidden_size": 100000000,
        "vocab_size": 1, "num_attention_heads": 100000000,
        "head_dim": 100000000, "intermediate_size": 1,
        "num_hidden_layers": 1})"),
      "config.json: `layers.0.self_attn.q_proj` would have 100000000 × "
      "10000000000000000 parameters, which is too many to count");
  EXPECT_EQ(
      error_of_config(R"({"model_type": "gpt2"})"),
      "config.json: `n_embd` is missing");
}

// Writes a file with one tensor of `count` values.
void write_tensor(
    const std::filesystem::path& path, const std::string& name, int count) {
  const std::string bytes = std::to_string(4 * count);
  const std::string header =
      "{\"" + name + "\": {\"dtype\": \"F32\", \"shape\": [" +
      std::to_string(count) + "], \"data_offsets\": [0, " + bytes + "]}}";
  std::ofstream file(path, std::ios::binary);
  const std::uint64_t length = header.size();
  file.write(reinterpret_cast<const char*>(&length), 8);
  file << header << std::string(static_cast<std::size_t>(4 * count), '\0');
}

class ModelDirectory : public testing::Test {
 protected:
  void SetUp() override {
    write_tensor(folder_ / "one.safetensors", "a.weight", 3);
    write_tensor(folder_ / "two.safetensors", "b.weight", 5);
    write_tensor(folder_ / "old.safetensors", "a.weight", 100);
  }

  void write_index(const std::string& text) const {
    std::ofstream(folder_ / "model.safetensors.index.json") << text;
  }

  const std::filesystem::path folder_ = fresh_folder();
};

TEST_F(ModelDirectory, CountsTheFilesInItsIndex) {
  write_index(R"({"weight_map": {"a.weight": "one.safetensors",
                                 "b.weight": "two.safetensors"}})");

  EXPECT_EQ(read_model_size(folder_).parameters(), 8);
}

TEST_F(ModelDirectory, CountsOnlyModelSafetensors) {
  write_tensor(folder_ / "model.safetensors", "c.weight", 7);

  EXPECT_EQ(read_model_size(folder_).parameters(), 7);
}

TEST_F(ModelDirectory, IsRejectedWhenItsIndexIsWrong) {
  write_index(R"({"weight_map": {"z.weight": "one.safetensors"}})");
  EXPECT_THROW((void)read_model_size(folder_), FormatError);
  write_index(R"({"weight_map": {"a.weight": "../one.safetensors"}})");
  EXPECT_THROW((void)read_model_size(folder_), FormatError);
  write_index("{}");
  EXPECT_THROW((void)read_model_size(folder_), FormatError);
}

}  // namespace
}  // namespace accelerate
