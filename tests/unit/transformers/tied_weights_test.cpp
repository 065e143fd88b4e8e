// SPDX-License-Identifier: Apache-2.0
// Files whose weights differ although the config ties them.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <torch/types.h>
#include <torch/utils.h>

#include "accelerate/error.h"
#include "accelerate/safetensors.h"
#include "support/message_of.h"
#include "support/temporary_directory.h"
#include "transformers/auto_model.h"
#include "unit/transformers/tiny_models.h"

namespace transformers {
namespace {

namespace fs = std::filesystem;
using accelerate::FormatError;
using accelerate::message_of;
using accelerate::TensorMap;
using testing::ElementsAre;
using testing::IsEmpty;

using LanguageModel = Model<ModelOutput>;

bool is_causal(const Config& config) {
  return config.model_type() == "gpt2" || config.model_type() == "llama";
}

LanguageModel make(const Config& config) {
  if (is_causal(config)) {
    return AutoModelForCausalLM::from_config(config);
  }
  return AutoModelForMaskedLM::from_config(config);
}

LanguageModel load(const fs::path& folder, FromPretrainedOptions options = {}) {
  options.report = false;
  const Config config = AutoConfig::from_pretrained(folder.string());
  if (is_causal(config)) {
    return AutoModelForCausalLM::from_pretrained(folder.string(), options);
  }
  return AutoModelForMaskedLM::from_pretrained(folder.string(), options);
}

at::Tensor parameter(const LanguageModel& model, const std::string& name) {
  for (const auto& [key, tensor] : model->named_parameters()) {
    if (key == name) {
      return tensor;
    }
  }
  return {};
}

at::Tensor logits(const LanguageModel& model) {
  return model({{"input_ids", tiny_batch().at("input_ids")}}).logits;
}

struct TiedCase {
  const char* name;
  Config config;
  const char* head;       // The head's weight.
  const char* embedding;  // The weight that the config ties it to.
};

void PrintTo(const TiedCase& tied, std::ostream* out) {
  *out << tied.name;
}

class TiedWeights : public testing::TestWithParam<TiedCase> {
 protected:
  // Saves a model, then adds tensors to its file.
  static fs::path saved(const TensorMap& extra) {
    torch::manual_seed(11);
    const fs::path folder = accelerate::fresh_folder() / GetParam().name;
    make(GetParam().config)->save_pretrained(folder);
    TensorMap tensors = accelerate::load_sharded(folder);
    for (const auto& [name, tensor] : extra) {
      tensors[name] = tensor;
    }
    accelerate::save_sharded(tensors, folder);
    return folder;
  }

  static TensorMap other_head() {
    return {{GetParam().head, at::randn({50, 16}) * 0.3}};
  }

  std::string head = GetParam().head;
  std::string embedding = GetParam().embedding;
};

TEST_P(TiedWeights, AreNotTiedIfTheFileHasAnotherHead) {
  const fs::path folder = saved(other_head());
  const TensorMap file = accelerate::load_sharded(folder);

  const LanguageModel model = load(folder);

  ASSERT_TRUE(parameter(model, head).defined());
  EXPECT_TRUE(parameter(model, head).equal(file.at(head)));
  EXPECT_TRUE(parameter(model, embedding).equal(file.at(embedding)));
  EXPECT_THAT(model->loading_report().missing, IsEmpty());
  EXPECT_EQ(
      model->loading_report().text(),
      model->loading_report().model + " from " + folder.string() +
          ": the config ties these weights, but their values in the file "
          "differ, so they are not tied: " +
          head + ", " + embedding + "\n");
}

TEST_P(TiedWeights, ComputeTheLogitsOfAnUntiedConfig) {
  const fs::path folder = saved(other_head());
  accelerate::Json json =
      AutoConfig::from_pretrained(folder.string()).to_json();
  json["tie_word_embeddings"] = false;

  const LanguageModel model = load(folder);
  const LanguageModel untied =
      load(folder, {.config = Config::from_json(json)});

  EXPECT_TRUE(logits(model).equal(logits(untied)));
}

TEST_P(TiedWeights, TrainAndSaveBothIfTheyDiffer) {
  const fs::path folder = saved(other_head());
  const LanguageModel model = load(folder);

  logits(model).square().sum().backward();
  EXPECT_TRUE(parameter(model, head).grad().defined());
  EXPECT_TRUE(parameter(model, embedding).grad().defined());
  model->save_pretrained(folder);
  const LanguageModel again = load(folder);

  EXPECT_TRUE(logits(again).equal(logits(model)));
}

TEST_P(TiedWeights, AreTiedIfTheFileHasTheSameHead) {
  const fs::path first = saved({});
  const TensorMap file = accelerate::load_sharded(first);
  const fs::path folder = saved({{head, file.at(embedding).clone()}});

  const LanguageModel model = load(folder);

  EXPECT_FALSE(parameter(model, head).defined());
  EXPECT_EQ(model->loading_report().text(), "");
}

TEST_P(TiedWeights, AreComparedInTheTypeOfTheModel) {
  const fs::path first = saved({});
  const at::Tensor rounded =
      accelerate::load_sharded(first).at(embedding).to(at::kBFloat16);
  const fs::path folder = saved({{head, rounded}});

  EXPECT_FALSE(
      parameter(load(folder, {.dtype = at::kBFloat16}), head).defined());
  EXPECT_TRUE(parameter(load(folder, {.dtype = at::kFloat}), head).defined());
}

TEST_P(TiedWeights, AHeadOfAnotherShapeIsAnError) {
  const fs::path folder = saved({{head, at::zeros({51, 16})}});

  EXPECT_EQ(
      message_of<FormatError>([&] { (void)load(folder); }),
      folder.string() + ": `" + head +
          "` has shape [51, 16], but the model needs [50, 16]");
  const LanguageModel model = load(folder, {.ignore_mismatched_sizes = true});
  EXPECT_THAT(model->loading_report().mismatched, ElementsAre(head));
}

LlamaConfig tied_llama() {
  LlamaConfig llama;
  llama.vocab_size = 50;
  llama.hidden_size = 16;
  llama.intermediate_size = 24;
  llama.num_hidden_layers = 2;
  llama.num_attention_heads = 2;
  llama.tie_word_embeddings = true;
  return llama;
}

INSTANTIATE_TEST_SUITE_P(
    Loading,
    TiedWeights,
    testing::Values(
        TiedCase{
            "bert",
            tiny_bert(),
            "cls.predictions.decoder.weight",
            "bert.embeddings.word_embeddings.weight"},
        TiedCase{
            "roberta",
            RobertaConfig{
                .vocab_size = 50,
                .hidden_size = 16,
                .num_hidden_layers = 2,
                .num_attention_heads = 2,
                .intermediate_size = 24,
                .max_position_embeddings = 20},
            "lm_head.decoder.weight",
            "roberta.embeddings.word_embeddings.weight"},
        TiedCase{
            "distilbert",
            DistilBertConfig{
                .vocab_size = 50,
                .max_position_embeddings = 20,
                .n_layers = 2,
                .n_heads = 2,
                .dim = 16,
                .hidden_dim = 24},
            "vocab_projector.weight",
            "distilbert.embeddings.word_embeddings.weight"},
        TiedCase{
            "gpt2", tiny_gpt2(), "lm_head.weight", "transformer.wte.weight"},
        TiedCase{
            "llama",
            tied_llama(),
            "lm_head.weight",
            "model.embed_tokens.weight"}),
    [](const auto& test) { return std::string(test.param.name); });

// BERT and RoBERTa also tie the bias.
class TiedBias : public TiedWeights {};

TEST_P(TiedBias, IsNotTiedIfTheFileHasAnotherOne) {
  const at::Tensor first_bias = at::randn({50});
  const at::Tensor second_bias = at::randn({50});
  const fs::path folder = saved({{head, first_bias}, {embedding, second_bias}});
  const fs::path same = saved({{head, first_bias}, {embedding, first_bias}});

  const LanguageModel model = load(folder);
  const LanguageModel tied = load(same);

  EXPECT_TRUE(parameter(model, head).equal(first_bias));
  EXPECT_TRUE(parameter(model, embedding).equal(second_bias));
  EXPECT_FALSE(parameter(tied, head).defined());
  // The model uses the bias of the decoder.
  EXPECT_TRUE(logits(model).equal(logits(tied)));
}

TEST_P(TiedBias, IsReadUnderEitherName) {
  const at::Tensor bias = at::randn({50});
  const fs::path folder = saved({{head, bias}});
  TensorMap tensors = accelerate::load_sharded(folder);
  tensors.erase(embedding);
  accelerate::save_sharded(tensors, folder);

  const LanguageModel model = load(folder);

  EXPECT_TRUE(parameter(model, embedding).equal(bias));
  EXPECT_EQ(model->loading_report().text(), "");
}

INSTANTIATE_TEST_SUITE_P(
    Loading,
    TiedBias,
    testing::Values(
        TiedCase{
            "bert",
            tiny_bert(),
            "cls.predictions.decoder.bias",
            "cls.predictions.bias"},
        TiedCase{
            "roberta",
            RobertaConfig{
                .vocab_size = 50,
                .hidden_size = 16,
                .num_hidden_layers = 2,
                .num_attention_heads = 2,
                .intermediate_size = 24,
                .max_position_embeddings = 20},
            "lm_head.decoder.bias",
            "lm_head.bias"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace transformers
