// SPDX-License-Identifier: Apache-2.0
#include "transformers/configuration.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/types.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "support/message_of.h"
#include "support/temporary_directory.h"
#include "transformers/auto_model.h"

namespace transformers {
namespace {

using accelerate::ArgumentError;
using accelerate::FormatError;
using accelerate::Json;
using accelerate::message_of;
using accelerate::UnsupportedError;

Config parse(const std::string& text) {
  return Config::from_json(Json::parse(text), "config.json");
}

TEST(Configuration, KeepsUnknownKeys) {
  const Config config = parse(
      R"({"model_type": "bert", "hidden_size": 16, "use_cache": false,
          "my_own": {"a": [1, 2]}})");

  EXPECT_EQ(config.as<BertConfig>().hidden_size, 16);
  EXPECT_EQ(config.as<BertConfig>().num_hidden_layers, 12);
  const Json written = config.to_json();
  EXPECT_EQ(written.at("my_own").dump(), R"({"a":[1,2]})");
  EXPECT_FALSE(written.at("use_cache").as_bool());
  EXPECT_EQ(written.at("model_type").as_string(), "bert");
  EXPECT_EQ(written.at("hidden_size").as_integer(), 16);
}

TEST(Configuration, RoundTrips) {
  for (const std::string& type : AutoConfig::model_types()) {
    const Config config = parse(R"({"model_type": ")" + type + "\"}");

    const Config again = Config::from_json(config.to_json());

    EXPECT_EQ(again.to_json(), config.to_json()) << type;
  }
}

TEST(Configuration, AcceptsOldAndAlternativeNames) {
  const auto gpt2 = parse(
      R"({"model_type": "gpt2", "hidden_size": 32, "torch_dtype": "float16"})");
  const auto llama = parse(
      R"({"model_type": "llama", "rope_theta": 500000,
          "rope_scaling": {"type": "linear", "factor": 2}})");

  EXPECT_EQ(gpt2.as<GPT2Config>().n_embd, 32);
  EXPECT_EQ(gpt2.common().dtype, "float16");
  const RopeParameters& rope = llama.as<LlamaConfig>().rope_parameters;
  EXPECT_EQ(rope.rope_type, "linear");
  EXPECT_EQ(rope.rope_theta, 500000.0);
  EXPECT_EQ(rope.factor, 2.0);
}

TEST(Configuration, ReadsLabels) {
  const Config config = parse(
      R"({"model_type": "bert",
          "id2label": {"0": "no", "1": "maybe", "2": "yes"},
          "label2id": {"no": 0, "maybe": 1, "yes": 2}})");

  EXPECT_EQ(config.common().num_labels, 3);
  EXPECT_EQ(config.common().id2label.at(1), "maybe");
  EXPECT_EQ(
      config.to_json().at("label2id").dump(), R"({"no":0,"maybe":1,"yes":2})");
}

TEST(Configuration, KeepsLabelsWithGapsInTheirNumbers) {
  const Config config = parse(
      R"({"model_type": "bert", "id2label": {"5": "five", "7": "seven"}})");

  EXPECT_EQ(
      config.to_json().at("id2label").dump(), R"({"5":"five","7":"seven"})");
}

TEST(Configuration, CopiesAreIndependent) {
  Config config = parse(R"({"model_type": "bert"})");
  Config copy = config;
  copy.as<BertConfig>().hidden_size = 1;

  EXPECT_EQ(config.as<BertConfig>().hidden_size, 768);
}

TEST(Configuration, ReportsTheModelTypeOfAWrongStruct) {
  const Config config = parse(R"({"model_type": "bert"})");

  EXPECT_EQ(
      message_of<ArgumentError>([&] { (void)config.as<LlamaConfig>(); }),
      "the config has the model type `bert`, not `llama`");
}

struct BadConfig {
  const char* name;
  const char* text;
  const char* message;
};

class BadConfigs : public testing::TestWithParam<BadConfig> {};

TEST_P(BadConfigs, AreRejected) {
  try {
    (void)parse(GetParam().text);
    FAIL() << "no error";
  } catch (const accelerate::Error& error) {
    EXPECT_STREQ(error.what(), GetParam().message);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Configuration,
    BadConfigs,
    testing::Values(
        BadConfig{
            "list",
            "[]",
            "config.json: `model_type` is missing or not a string"},
        BadConfig{
            "unknown_type",
            R"({"model_type": "mamba"})",
            "config.json: the model type `mamba` is not supported; supported "
            "types: bert, "
            "distilbert, gpt2, llama, roberta"},
        BadConfig{
            "own_code",
            R"({"model_type": "other", "auto_map": {"AutoModel": "x.py"}})",
            "config.json: the model type `other` needs custom Python code "
            "(`auto_map`)"},
        BadConfig{
            "quantized",
            R"({"model_type": "llama", "quantization_config": {"bits": 4}})",
            "config.json: the weights are quantized"},
        BadConfig{
            "text_for_number",
            R"({"model_type": "bert", "hidden_size": "12"})",
            "config.json: `hidden_size` is \"12\", not an integer"},
        BadConfig{
            "number_for_text",
            R"({"model_type": "bert", "hidden_act": 3})",
            "config.json: `hidden_act` is 3, not a string"},
        BadConfig{
            "too_many_labels",
            R"({"model_type": "bert", "num_labels": 100000000000})",
            "config.json: `num_labels` is 100000000000, but must be between 0 "
            "and 1000000"},
        BadConfig{
            "label_without_number",
            R"({"model_type": "bert", "id2label": {"a": "b"}})",
            "config.json: `id2label`: `a` is not a label number"},
        BadConfig{
            "label_without_name",
            R"({"model_type": "bert", "id2label": {"0": 1}})",
            "config.json: `id2label`: the value of `0` is not a string"},
        BadConfig{
            "rope_key",
            R"({"model_type": "llama", "rope_parameters": {"swing": 1}})",
            "config.json: rope_parameters: unknown key `swing`"}),
    [](const auto& test) { return std::string(test.param.name); });

// As in Python, the code in the folder is not needed if the model type is
// known.
TEST(Configuration, KeepsTheCodeOfAKnownModelType) {
  const Config config =
      parse(R"({"model_type": "bert", "auto_map": {"AutoModel": "x.Y"}})");

  EXPECT_EQ(config.to_json().at("auto_map").dump(), R"({"AutoModel":"x.Y"})");
}

TEST(Configuration, ReadsAndWritesNumbersThatAreNotFinite) {
  const std::filesystem::path folder = accelerate::fresh_folder();
  accelerate::write_file(
      folder / "config.json",
      R"({"model_type": "bert", "layer_norm_eps": NaN, "extra_numbers": [-Infinity]})");

  const Config config = AutoConfig::from_pretrained(folder.string());
  EXPECT_TRUE(std::isnan(config.as<BertConfig>().layer_norm_eps));
  config.save_pretrained(folder);

  const Config again = AutoConfig::from_pretrained(folder.string());
  EXPECT_EQ(
      again.common().extra.at("extra_numbers").dump({.allow_nan = true}),
      "[-Infinity]");
}

TEST(Configuration, MakesTheModelInItsType) {
  for (const auto& [name, dtype] :
       {std::pair("bfloat16", at::kBFloat16),
        std::pair("half", at::kHalf),
        std::pair("double", at::kDouble),
        std::pair("float", at::kFloat)}) {
    const auto config = GPT2Config{
        .vocab_size = 9,
        .n_embd = 8,
        .n_layer = 1,
        .n_head = 2,
        .common = {.dtype = name}};
    const auto model = AutoModel::from_config(config);
    EXPECT_EQ(model->parameters()[0].scalar_type(), dtype);
    const auto other = AutoModel::from_config(config, {.dtype = at::kFloat});
    EXPECT_EQ(other->parameters()[0].scalar_type(), at::kFloat);
  }
}

// An untrusted config may require more memory than the machine has.
TEST(Configuration, AModelThatCannotFitIsRefusedBeforeItIsMade) {
  const auto message = [](const Config& config) {
    return message_of<accelerate::OutOfMemoryError>(
        [&] { (void)AutoModel::from_config(config); });
  };
  EXPECT_THAT(
      message(BertConfig{.hidden_size = 1'200'000'000}),
      testing::StartsWith("the config needs 133.25 TiB for a weight of shape "
                          "[30522, 1200000000], but this machine has "));
  EXPECT_THAT(
      message(GPT2Config{.n_embd = 8192, .n_layer = 10'000, .n_head = 16}),
      testing::StartsWith("the config needs 29."));
}

TEST(Configuration, KeepsWhatTheModelReturns) {
  const auto read = [](const std::string& fields) {
    return Config::from_json(
        Json::parse(R"({"model_type":"bert",)" + fields + "}"), "config.json");
  };
  const Config config =
      read(R"("output_attentions":true,"output_hidden_states":null)");

  EXPECT_TRUE(config.common().output_attentions);
  EXPECT_FALSE(config.common().output_hidden_states);
  EXPECT_EQ(config.to_json().at("output_attentions"), Json(true));
  EXPECT_FALSE(config.to_json().contains("output_hidden_states"));
  EXPECT_EQ(
      message_of<FormatError>([&] { read(R"("output_hidden_states":1)"); }),
      "config.json: `output_hidden_states` is 1, not true or false");
}

// As in Transformers 5.22.2: GPT-2 and Llama predict two values per token,
// whatever the number of labels. DistilBERT refuses another number in its
// constructor, BERT and RoBERTa in the first forward pass ("not enough values
// to unpack", "too many values to unpack").
TEST(Configuration, QuestionAnsweringNeedsTwoLabelsOnlyInEncoders) {
  const auto logits = [](const auto& config) {
    return AutoModelForQuestionAnswering::from_config(config)(
               {{"input_ids", at::ones({2, 3}, at::kLong)}})
        .start_logits.sizes()
        .vec();
  };
  const std::vector<std::int64_t> expected = {2, 3};
  for (const std::int64_t count : {1, 3}) {
    EXPECT_EQ(
        logits(GPT2Config{
            .vocab_size = 9,
            .n_embd = 8,
            .n_layer = 1,
            .n_head = 2,
            .common = {.num_labels = count}}),
        expected);
    LlamaConfig llama;
    llama.vocab_size = 9;
    llama.hidden_size = 8;
    llama.intermediate_size = 8;
    llama.num_hidden_layers = 1;
    llama.num_attention_heads = 2;
    llama.common.num_labels = count;
    EXPECT_EQ(logits(llama), expected);
    const std::string refusal =
        "`num_labels` is " + std::to_string(count) +
        ", but question answering needs two labels, one for the start and "
        "one for the end";
    const PretrainedConfig common = {.num_labels = count};
    for (const Config& encoder :
         {Config(BertConfig{.hidden_size = 12, .common = common}),
          Config(RobertaConfig{.hidden_size = 12, .common = common}),
          Config(DistilBertConfig{.dim = 12, .common = common})}) {
      EXPECT_EQ(
          message_of<ArgumentError>([&] {
            (void)AutoModelForQuestionAnswering::from_config(encoder);
          }),
          refusal);
    }
  }
}

struct BadModel {
  const char* name;
  Config config;
  const char* message;
};

class BadModels : public testing::TestWithParam<BadModel> {};

TEST_P(BadModels, AreNotBuilt) {
  try {
    (void)AutoModel::from_config(GetParam().config);
    FAIL() << "no error";
  } catch (const accelerate::Error& error) {
    EXPECT_STREQ(error.what(), GetParam().message);
  }
}

PretrainedConfig with_extra(const char* key, Json value) {
  PretrainedConfig common;
  common.extra[key] = std::move(value);
  return common;
}

INSTANTIATE_TEST_SUITE_P(
    Configuration,
    BadModels,
    testing::Values(
        BadModel{
            "heads",
            BertConfig{.hidden_size = 10, .num_attention_heads = 3},
            "the hidden size 10 cannot be divided evenly among 3 attention "
            "heads"},
        BadModel{
            "no_heads",
            GPT2Config{.n_embd = 8, .n_layer = 1, .n_head = 0},
            "the hidden size 8 cannot be divided evenly among 0 attention "
            "heads"},
        BadModel{
            "keys",
            LlamaConfig{
                .vocab_size = 9,
                .hidden_size = 8,
                .intermediate_size = 8,
                .num_attention_heads = 4,
                .num_key_value_heads = 3},
            "`num_attention_heads` is 4, but must be a multiple of "
            "`num_key_value_heads`, which is 3"},
        BadModel{
            "own_head_width",
            LlamaConfig{
                .vocab_size = 9,
                .hidden_size = 8,
                .intermediate_size = 8,
                .num_attention_heads = 3,
                .head_dim = 4},
            "the hidden size 8 cannot be divided evenly among 3 attention "
            "heads"},
        BadModel{
            "large_deviation",
            LlamaConfig{
                .hidden_size = 8,
                .num_attention_heads = 2,
                .initializer_range = 1.5},
            "`initializer_range` is 1.5, but must be between 0 and 1"},
        BadModel{
            "layers",
            GPT2Config{
                .vocab_size = 9,
                .n_embd = 8,
                .n_layer = 1000000000000,
                .n_head = 2},
            "the number of layers in the config is 1000000000000, but must be "
            "between 0 and 10000"},
        BadModel{
            "vocabulary",
            BertConfig{.vocab_size = -3},
            "the config has a layer of size -3; sizes must be between 1 and "
            "2147483648"},
        BadModel{
            "padding",
            BertConfig{.vocab_size = 9, .hidden_size = 12, .pad_token_id = 9},
            "`pad_token_id` is 9, but the number of rows in the embedding "
            "table is 9"},
        BadModel{
            "activation",
            BertConfig{
                .vocab_size = 9, .hidden_size = 12, .hidden_act = "gulu"},
            "the activation `gulu` is not supported; supported activations: "
            "gelu, gelu_10, "
            "gelu_accurate, gelu_fast, gelu_new, gelu_python, "
            "gelu_python_tanh, gelu_pytorch_tanh, hardswish, leaky_relu, "
            "linear, mish, quick_gelu, relu, relu2, relu6, sigmoid, silu, "
            "swish, tanh"},
        BadModel{
            "dropout",
            BertConfig{.hidden_dropout_prob = 2.0},
            "`hidden_dropout_prob` is 2; a dropout rate must be between 0 and "
            "1"},
        BadModel{
            "negative_dropout",
            GPT2Config{.attn_pdrop = -0.5},
            "`attn_pdrop` is -0.5; a dropout rate must be between 0 and 1"},
        BadModel{
            "optional_dropout",
            RobertaConfig{.classifier_dropout = std::nan("")},
            "`classifier_dropout` is nan; a dropout rate must be between 0 and "
            "1"},
        BadModel{
            "negative_deviation",
            DistilBertConfig{.initializer_range = -1.0},
            "`initializer_range` is -1, but must be 0 or more"},
        BadModel{
            "dtype",
            GPT2Config{.common = {.dtype = "int8"}},
            "`dtype` is `int8`; weights must be float32, bfloat16, float16 or "
            "float64"},
        BadModel{
            "unknown_dtype",
            GPT2Config{.common = {.dtype = "float99"}},
            "`dtype` is `float99`; weights must be float32, bfloat16, float16 "
            "or float64"},
        BadModel{
            "relative_positions",
            BertConfig{
                .vocab_size = 9,
                .hidden_size = 12,
                .common =
                    with_extra("position_embedding_type", "relative_key")},
            "the config's `position_embedding_type` is \"relative_key\"; only "
            "\"absolute\" is supported"},
        BadModel{
            "rope_type",
            LlamaConfig{
                .hidden_size = 8,
                .num_attention_heads = 2,
                .rope_parameters = {.rope_type = "swing"}},
            "`rope_type` is `swing`, but must be one of default, linear, "
            "dynamic, yarn, "
            "longrope, llama3"},
        BadModel{
            "rope_factor",
            LlamaConfig{
                .hidden_size = 8,
                .num_attention_heads = 2,
                .rope_parameters = {.rope_type = "linear"}},
            "`rope_parameters` of type `linear` need `factor`"},
        BadModel{
            "rope_factors",
            LlamaConfig{
                .hidden_size = 8,
                .num_attention_heads = 2,
                .rope_parameters =
                    {.rope_type = "longrope",
                     .short_factor = std::vector<double>{1.0},
                     .long_factor = std::vector<double>{1.0}}},
            "`short_factor` in `rope_parameters` has length 1, but must have "
            "length 2, half of `head_dim`"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace transformers
