// SPDX-License-Identifier: Apache-2.0
// Batches that a model cannot process are rejected with the name and the value.
#include "transformers/batch_checks.h"

#include <gtest/gtest.h>

#include <torch/types.h>

#include "accelerate/error.h"
#include "device/token_counts.h"
#include "support/message_of.h"
#include "transformers/auto_model.h"
#include "unit/transformers/tiny_models.h"

namespace transformers {
namespace {

using accelerate::ArgumentError;
using accelerate::message_of;
using accelerate::TensorMap;

at::Tensor ids_23() {
  return at::arange(6).view({2, 3}) + 2;
}

at::Tensor with_value(at::Tensor tensor, std::int64_t value) {
  tensor[1][2] = value;
  return tensor;
}

RobertaConfig small_roberta() {
  return {
      .vocab_size = 50,
      .hidden_size = 16,
      .num_hidden_layers = 1,
      .num_attention_heads = 2,
      .intermediate_size = 24,
      .max_position_embeddings = 20};
}

DistilBertConfig small_distilbert() {
  return {
      .vocab_size = 50,
      .max_position_embeddings = 20,
      .n_layers = 1,
      .n_heads = 2,
      .dim = 16,
      .hidden_dim = 24};
}

LlamaConfig small_llama() {
  LlamaConfig llama;
  llama.vocab_size = 50;
  llama.hidden_size = 16;
  llama.intermediate_size = 24;
  llama.num_hidden_layers = 1;
  llama.num_attention_heads = 2;
  llama.max_position_embeddings = 20;
  llama.pad_token_id = 0;
  return llama;
}

std::vector<Config> all_configs() {
  return {
      tiny_bert(),
      small_roberta(),
      small_distilbert(),
      tiny_gpt2(),
      small_llama()};
}

template <typename Auto>
std::string error_of(const Config& config, const TensorMap& batch) {
  const auto model = Auto::from_config(config);
  return message_of<ArgumentError>([&] { (void)model(batch); });
}

TEST(BatchChecks, IdsAreInTheVocabulary) {
  const std::string end =
      "; the vocabulary of the model has 50 tokens, so the values must be "
      "between 0 and 49";
  for (const Config& config : all_configs()) {
    SCOPED_TRACE(config.model_type());
    EXPECT_EQ(
        error_of<AutoModel>(config, {{"input_ids", with_value(ids_23(), 50)}}),
        "`input_ids` has the value 50 at [1, 2]" + end);
    EXPECT_EQ(
        error_of<AutoModel>(config, {{"input_ids", with_value(ids_23(), -1)}}),
        "`input_ids` has the value -1 at [1, 2]" + end);
    EXPECT_EQ(
        error_of<AutoModel>(
            config, {{"input_ids", with_value(ids_23(), -100).to(at::kInt)}}),
        "`input_ids` has the value -100 at [1, 2]" + end);
  }
}

TEST(BatchChecks, IdsAreIntegers) {
  for (const Config& config : all_configs()) {
    SCOPED_TRACE(config.model_type());
    for (const auto type : {at::kFloat, at::kBool, at::kShort, at::kByte}) {
      EXPECT_EQ(
          error_of<AutoModel>(config, {{"input_ids", ids_23().to(type)}}),
          std::string("`input_ids` has type ") + c10::toString(type) +
              ", but it must contain integers of type Long or Int");
    }
  }
}

TEST(BatchChecks, TextFitsThePositions) {
  const auto long_error = [](const Config& config, std::int64_t tokens) {
    return error_of<AutoModel>(
        config, {{"input_ids", at::full({1, tokens}, 7, at::kLong)}});
  };
  for (const Config& config :
       {Config(tiny_bert()), Config(small_distilbert()), Config(tiny_gpt2())}) {
    SCOPED_TRACE(config.model_type());
    EXPECT_EQ(
        long_error(config, 21),
        "a row of the batch has 21 tokens, but the model has positions for at "
        "most 20");
  }
  // Positions start at 2, which is the padding id plus one.
  EXPECT_EQ(
      long_error(small_roberta(), 19),
      "a row of the batch has 19 tokens, but the model has positions for at "
      "most 18");
  EXPECT_EQ(
      error_of<AutoModel>(
          small_roberta(), {{"inputs_embeds", at::zeros({1, 19, 16})}}),
      "a row of the batch has 19 tokens, but the model has positions for at "
      "most 18");
  const auto llama = AutoModel::from_config(small_llama());
  EXPECT_NO_THROW(llama({{"input_ids", at::full({1, 40}, 7, at::kLong)}}));
}

TEST(BatchChecks, PaddingNeedsNoPositionInRoberta) {
  const auto model = AutoModel::from_config(small_roberta());
  at::Tensor ids = at::full({2, 30}, 1, at::kLong);
  ids.narrow(1, 5, 18).fill_(7);

  EXPECT_NO_THROW(model({{"input_ids", ids}}));
}

TEST(BatchChecks, PositionsAndTypesAreInTheirTables) {
  const std::string positions_end =
      "; the model has 20 position embeddings, so the values must be between 0 "
      "and 19";
  for (const Config& config :
       {Config(tiny_bert()),
        Config(small_roberta()),
        Config(small_distilbert()),
        Config(tiny_gpt2())}) {
    SCOPED_TRACE(config.model_type());
    EXPECT_EQ(
        error_of<AutoModel>(
            config,
            {{"input_ids", ids_23()},
             {"position_ids", with_value(ids_23(), 20)}}),
        "`position_ids` has the value 20 at [1, 2]" + positions_end);
    EXPECT_EQ(
        error_of<AutoModel>(
            config,
            {{"input_ids", ids_23()}, {"position_ids", at::zeros({2, 3})}}),
        "`position_ids` has type Float, but it must contain integers of type "
        "Long or Int");
  }
  EXPECT_EQ(
      error_of<AutoModel>(
          tiny_bert(),
          {{"input_ids", ids_23()},
           {"token_type_ids", with_value(at::zeros({2, 3}, at::kLong), 2)}}),
      "`token_type_ids` has the value 2 at [1, 2]; the model has 2 token "
      "types, "
      "so the values must be between 0 and 1");
}

TEST(BatchChecks, ShapesFitTheBatch) {
  for (const Config& config : all_configs()) {
    SCOPED_TRACE(config.model_type());
    EXPECT_EQ(
        error_of<AutoModel>(
            config,
            {{"input_ids", ids_23()},
             {"position_ids", at::zeros({3, 3}, at::kLong)}}),
        "`position_ids` has shape [3, 3], but for this batch it must have "
        "shape "
        "[2, 3]");
    EXPECT_EQ(
        error_of<AutoModel>(
            config,
            {{"input_ids", ids_23()},
             {"attention_mask", at::ones({3, 3}, at::kLong)}}),
        "`attention_mask` has shape [3, 3], but for this batch it must have "
        "shape [2, 3]");
    EXPECT_EQ(
        error_of<AutoModel>(
            config,
            {{"input_ids", ids_23()},
             {"attention_mask", at::ones({2, 1, 3, 4}, at::kBool)}}),
        "`attention_mask` has shape [2, 1, 3, 4], but the number of rows in "
        "the "
        "batch is 2, and the number of tokens in a row is 3");
    EXPECT_EQ(
        error_of<AutoModel>(config, {{"inputs_embeds", at::zeros({2, 3, 15})}}),
        "`inputs_embeds` has shape [2, 3, 15], but for this batch it must have "
        "shape [2, 3, 16]");
    EXPECT_EQ(
        error_of<AutoModel>(
            config, {{"input_ids", at::empty({2, 0}, at::kLong)}}),
        "the rows of the batch have no tokens");
  }
}

// A single row of types, positions or mask values applies to all rows of the
// batch.
TEST(BatchChecks, OneRowServesAllRows) {
  for (const Config& config : all_configs()) {
    SCOPED_TRACE(config.model_type());
    const auto model = AutoModel::from_config(config);
    model->eval();
    const at::Tensor row = at::tensor({1, 1, 0}, at::kLong);
    for (const char* name :
         {"token_type_ids", "position_ids", "attention_mask"}) {
      const auto call = [&](const at::Tensor& tensor) {
        return model({{"input_ids", ids_23()}, {name, tensor}})
            .last_hidden_state;
      };
      const auto expected = call(at::stack({row, row}));
      EXPECT_TRUE(call(row.unsqueeze(0)).equal(expected)) << name;
      if (std::string(name) != "attention_mask") {
        EXPECT_TRUE(call(row).equal(expected)) << name;
      }
    }
  }
}

TEST(BatchChecks, OtherErrorsOfLibTorchNameTheBatch) {
  const std::string text = error_of<AutoModel>(
      small_llama(), {{"inputs_embeds", at::zeros({2, 3, 16}, at::kDouble)}});

  EXPECT_EQ(
      text.find("the model cannot process the batch `inputs_embeds` Double "
                "[2, 3, 16]: "),
      0U)
      << text;
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

TEST(BatchChecks, AnErrorChangesNothing) {
  const auto model =
      AutoModelForSequenceClassification::from_config(tiny_bert());
  model->eval();
  const auto expected = model(tiny_batch()).logits;

  EXPECT_THROW(model({{"input_ids", with_value(ids_23(), 99)}}), ArgumentError);

  EXPECT_TRUE(model(tiny_batch()).logits.equal(expected));
}

Config with_labels(
    Config config,
    std::int64_t count,
    const std::optional<std::string>& problem_type = std::nullopt) {
  config.common().num_labels = count;
  config.common().problem_type = problem_type;
  return config;
}

std::string row_error(const Config& config, const at::Tensor& labels) {
  return error_of<AutoModelForSequenceClassification>(
      config, {{"input_ids", ids_23()}, {"labels", labels}});
}

TEST(BatchChecks, RowLabelsAreClasses) {
  for (const Config& config : all_configs()) {
    SCOPED_TRACE(config.model_type());
    const Config three = with_labels(config, 3);
    EXPECT_EQ(
        row_error(three, at::tensor({0, 3}, at::kLong)),
        "`labels` has the value 3 at [1]; the number of classes is 3, so the "
        "values must be between 0 and 2, or -100");
    EXPECT_EQ(
        row_error(three, at::tensor({-1, 0}, at::kLong)),
        "`labels` has the value -1 at [0]; the number of classes is 3, so the "
        "values must be between 0 and 2, or -100");
    EXPECT_EQ(
        row_error(three, at::zeros({3}, at::kLong)),
        "`labels` has shape [3], but for this batch it must have shape [2]");
    EXPECT_EQ(
        row_error(
            with_labels(config, 3, "single_label_classification"),
            at::tensor({0.5F, 1.0F})),
        "`labels` has type Float, but it must contain integers");
    const auto model = AutoModelForSequenceClassification::from_config(three);
    EXPECT_NO_THROW(model(
        {{"input_ids", ids_23()},
         {"labels", at::tensor({-100, 2}, at::kLong).view({2, 1})}}));
  }
}

TEST(BatchChecks, SeveralLabelsPerRowAreRealNumbers) {
  const Config several =
      with_labels(tiny_bert(), 3, "multi_label_classification");
  EXPECT_EQ(
      row_error(several, at::ones({2, 3}, at::kLong)),
      "`labels` has type Long, but it must contain floating-point numbers");
  EXPECT_EQ(
      row_error(with_labels(tiny_bert(), 3), at::ones({2})),
      "`labels` has shape [2], but for this batch it must have shape [2, 3]");
}

TEST(BatchChecks, RegressionLabelsAreRealNumbers) {
  const Config regression = with_labels(tiny_bert(), 1);
  EXPECT_EQ(
      row_error(regression, at::ones({2}, at::kLong)),
      "`labels` has type Long, but it must contain floating-point numbers");
  // Without the check, LibTorch would compare each row with the labels of all
  // rows.
  EXPECT_EQ(
      row_error(with_labels(tiny_bert(), 2, "regression"), at::ones({2})),
      "`labels` has shape [2], but for this batch it must have shape [2, 2]");
  const auto model =
      AutoModelForSequenceClassification::from_config(regression);
  for (const auto type : {at::kDouble, at::kHalf}) {
    model({{"input_ids", ids_23()}, {"labels", at::ones({2}, type)}})
        .loss.backward();
  }
  const at::NoGradGuard no_grad;
  EXPECT_NO_THROW(
      model({{"input_ids", ids_23()}, {"labels", at::ones({2}, at::kLong)}}));
}

template <typename Auto>
void expect_token_errors(const Config& config, std::int64_t classes) {
  SCOPED_TRACE(config.model_type());
  const auto error = [&](const at::Tensor& labels) {
    return error_of<Auto>(
        config, {{"input_ids", ids_23()}, {"labels", labels}});
  };
  const auto zeros = [] { return at::zeros({2, 3}, at::kLong); };
  const std::string end = " at [1, 2]; the number of classes is " +
                          std::to_string(classes) +
                          ", so the values must be between 0 and " +
                          std::to_string(classes - 1) + ", or -100";
  EXPECT_EQ(
      error(with_value(zeros(), classes)),
      "`labels` has the value " + std::to_string(classes) + end);
  EXPECT_EQ(error(with_value(zeros(), -1)), "`labels` has the value -1" + end);
  EXPECT_EQ(
      error(at::zeros({2, 4}, at::kLong)),
      "`labels` has shape [2, 4], but for this batch it must have shape [2, "
      "3]");
  EXPECT_EQ(
      error(at::zeros({2, 3})),
      "`labels` has type Float, but it must contain integers");
}

TEST(BatchChecks, TokenLabelsAreClasses) {
  for (const Config& config : all_configs()) {
    expect_token_errors<AutoModelForTokenClassification>(
        with_labels(config, 4), 4);
    if (config.model_type() == "gpt2" || config.model_type() == "llama") {
      expect_token_errors<AutoModelForCausalLM>(config, 50);
    } else {
      expect_token_errors<AutoModelForMaskedLM>(config, 50);
    }
  }
}

TEST(BatchChecks, AnswersAreOneTokenPerRow) {
  const auto error = [](const at::Tensor& start) {
    return error_of<AutoModelForQuestionAnswering>(
        tiny_bert(),
        {{"input_ids", ids_23()},
         {"start_positions", start},
         {"end_positions", at::zeros({2}, at::kLong)}});
  };
  EXPECT_EQ(
      error(at::zeros({2})),
      "`start_positions` has type Float, but it must contain integers");
  EXPECT_EQ(
      error(at::zeros({2, 2}, at::kLong)),
      "`start_positions` has shape [2, 2], but for this batch it must have "
      "shape [2]");
}

// The data loader attaches the range of the values to a batch on a GPU.
TEST(BatchChecks, UseTheKnownRangeOfABatchOnADevice) {
  const auto meta = at::TensorOptions(at::kLong).device(at::kMeta);
  ModelInputs inputs;
  inputs.input_ids = at::zeros({2, 3}, meta);
  const BatchLimits limits = {
      .words_VD = at::zeros({50, 16}, meta.dtype(at::kFloat))};
  EXPECT_NO_THROW(checked_inputs(inputs, limits, {}));

  accelerate::attach_facts(inputs.input_ids, with_value(ids_23(), 60));

  EXPECT_EQ(
      message_of<ArgumentError>([&] { checked_inputs(inputs, limits, {}); }),
      "`input_ids` has the value 60; the vocabulary of the model has 50 "
      "tokens, "
      "so the values must be between 0 and 49");
}

TEST(BatchChecks, AnUnknownProblemTypeIsNamed) {
  EXPECT_EQ(
      row_error(with_labels(tiny_bert(), 2, "guessing"), at::ones({2})),
      "`problem_type` is `guessing`, but must be one of regression, "
      "single_label_classification, multi_label_classification");
}

TEST(BatchChecks, TheBatchIsOnTheDeviceOfTheModel) {
  const auto meta = at::TensorOptions(at::kLong).device(at::kMeta);
  EXPECT_EQ(
      error_of<AutoModel>(
          tiny_bert(), {{"input_ids", at::zeros({2, 3}, meta)}}),
      "`input_ids` is on meta, but the model is on cpu");
}

}  // namespace
}  // namespace transformers
