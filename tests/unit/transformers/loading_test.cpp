// SPDX-License-Identifier: Apache-2.0
// Saving models to folders and loading them.
#include <cstdlib>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
using accelerate::IoError;
using accelerate::message_of;
using accelerate::TensorMap;
using testing::ElementsAre;

fs::path model_folder(const std::string& name) {
  return accelerate::fresh_folder() / name;
}

/// Returns what `body` writes to stderr.
std::string stderr_of(const std::function<void()>& body) {
  testing::internal::CaptureStderr();
  body();
  return testing::internal::GetCapturedStderr();
}

TEST(Loading, LoadsTheModelThatWasSaved) {
  const fs::path folder = model_folder("again");
  const auto model =
      AutoModelForSequenceClassification::from_config(tiny_bert());
  model->eval();

  model->save_pretrained(folder);
  const auto again =
      AutoModelForSequenceClassification::from_pretrained(folder.string());

  EXPECT_TRUE(again(tiny_batch()).logits.equal(model(tiny_batch()).logits));
  EXPECT_EQ(
      again->config().common().architectures,
      std::vector<std::string>{"BertForSequenceClassification"});
}

TEST(Loading, LoadsShards) {
  const fs::path folder = model_folder("shards");
  const auto model = AutoModelForCausalLM::from_config(tiny_gpt2());
  model->eval();
  const TensorMap batch = {{"input_ids", tiny_batch().at("input_ids")}};

  model->save_pretrained(folder, {.max_shard_size = 4000});
  EXPECT_TRUE(fs::exists(folder / "model.safetensors.index.json"));
  const auto again = AutoModelForCausalLM::from_pretrained(folder.string());

  EXPECT_TRUE(again(batch).logits.equal(model(batch).logits));
}

TEST(Loading, ReportsRandomAndUnusedWeights) {
  const fs::path folder = model_folder("report");
  AutoModelForMaskedLM::from_config(tiny_bert())->save_pretrained(folder);
  std::optional<AutoModelForSequenceClassification> model;

  const std::string text = stderr_of([&] {
    model = AutoModelForSequenceClassification::from_pretrained(
        folder.string(), {.num_labels = 3});
  });

  const LoadingReport& report = (*model)->loading_report();
  EXPECT_THAT(
      report.missing,
      ElementsAre(
          "bert.pooler.dense.bias",
          "bert.pooler.dense.weight",
          "classifier.bias",
          "classifier.weight"));
  EXPECT_EQ(report.unexpected.size(), 5U);
  EXPECT_EQ(
      text,
      "BertForSequenceClassification from " + folder.string() +
          ": weights that are not in the file were initialized randomly (train "
          "the model before use): "
          "bert.pooler.dense.bias, bert.pooler.dense.weight, "
          "classifier.bias, classifier.weight\n"
          "BertForSequenceClassification from " +
          folder.string() +
          ": the model does not use these weights from the file: "
          "cls.predictions.bias, "
          "cls.predictions.transform.LayerNorm.bias, "
          "cls.predictions.transform.LayerNorm.weight, "
          "cls.predictions.transform.dense.bias, "
          "cls.predictions.transform.dense.weight\n");
  EXPECT_EQ(
      stderr_of([&] {
        (void)AutoModelForSequenceClassification::from_pretrained(
            folder.string(), {.report = false});
      }),
      "");
}

TEST(Loading, ReportsOnlyInTheFirstProcess) {
  const fs::path folder = model_folder("report_once");
  AutoModelForMaskedLM::from_config(tiny_bert())->save_pretrained(folder);
  const auto reports_as_rank = [&](const char* rank) {
    ::setenv("RANK", rank, 1);
    const std::string text = stderr_of([&] {
      (void)AutoModelForSequenceClassification::from_pretrained(
          folder.string());
    });
    ::unsetenv("RANK");
    return !text.empty();
  };

  EXPECT_TRUE(reports_as_rank("0"));
  EXPECT_FALSE(reports_as_rank("1"));
}

TEST(Loading, LoadsABaseModelIntoAHeadAndBack) {
  const fs::path folder = model_folder("base");
  const auto base = AutoModel::from_config(tiny_bert());
  base->save_pretrained(folder);

  const auto head = AutoModelForSequenceClassification::from_pretrained(
      folder.string(), {.report = false});

  EXPECT_THAT(
      head->loading_report().missing,
      ElementsAre("classifier.bias", "classifier.weight"));
  head->save_pretrained(folder);
  const auto again =
      AutoModel::from_pretrained(folder.string(), {.report = false});
  EXPECT_THAT(again->loading_report().missing, ElementsAre());
  EXPECT_TRUE(again->parameters()[0].equal(base->parameters()[0]));
}

TEST(Loading, ReadsOldNamesAndIgnoresBuffers) {
  const fs::path folder = model_folder("old_names");
  const auto base = AutoModel::from_config(tiny_bert());
  base->save_pretrained(folder);
  TensorMap tensors = accelerate::load_sharded(folder);
  TensorMap old = {{"embeddings.position_ids", at::arange(20).view({1, 20})}};
  for (const auto& [name, tensor] : tensors) {
    std::string key = name;
    if (key.ends_with("LayerNorm.weight")) {
      key = key.substr(0, key.size() - 6) + "gamma";
    } else if (key.ends_with("LayerNorm.bias")) {
      key = key.substr(0, key.size() - 4) + "beta";
    }
    old.emplace(key, tensor);
  }
  accelerate::save_sharded(old, folder);

  const auto again = AutoModel::from_pretrained(folder.string());

  EXPECT_EQ(again->loading_report().text(), "");
}

TEST(Loading, RejectsADifferentShapeUnlessIgnored) {
  const fs::path folder = model_folder("shape");
  AutoModelForSequenceClassification::from_config(tiny_bert())
      ->save_pretrained(folder);

  EXPECT_EQ(
      message_of<FormatError>([&] {
        (void)AutoModelForSequenceClassification::from_pretrained(
            folder.string(), {.num_labels = 5});
      }),
      folder.string() +
          ": `classifier.bias` has shape [2], but the model needs [5]");
  const auto model = AutoModelForSequenceClassification::from_pretrained(
      folder.string(),
      {.num_labels = 5, .ignore_mismatched_sizes = true, .report = false});
  EXPECT_THAT(
      model->loading_report().mismatched,
      ElementsAre("classifier.bias", "classifier.weight"));
  EXPECT_EQ(model(tiny_batch()).logits.size(1), 5);
}

TEST(Loading, LoadsInTheRequestedType) {
  const fs::path folder = model_folder("dtype");
  AutoModel::from_config(tiny_bert(), {.dtype = at::kBFloat16})
      ->save_pretrained(folder);

  const auto same = AutoModel::from_pretrained(folder.string());
  const auto other =
      AutoModel::from_pretrained(folder.string(), {.dtype = at::kFloat});

  EXPECT_EQ(same->parameters()[0].scalar_type(), at::kBFloat16);
  EXPECT_EQ(other->parameters()[0].scalar_type(), at::kFloat);
  EXPECT_EQ(same->config().common().dtype, "bfloat16");
}

TEST(Loading, TrainingDoesNotChangeTheFile) {
  const fs::path folder = model_folder("private");
  AutoModel::from_config(tiny_bert())->save_pretrained(folder);
  const auto model = AutoModel::from_pretrained(folder.string());
  {
    at::NoGradGuard no_grad;
    model->parameters()[0].zero_();
  }

  const auto again = AutoModel::from_pretrained(folder.string());

  EXPECT_GT(again->parameters()[0].abs().sum().item<float>(), 0.0F);
}

TEST(Loading, StoresTiedWeightsOnce) {
  const fs::path folder = model_folder("tied");
  const auto model = AutoModelForMaskedLM::from_config(tiny_bert());

  model->save_pretrained(folder);

  const TensorMap tensors = accelerate::load_sharded(folder);
  EXPECT_FALSE(tensors.contains("cls.predictions.decoder.weight"));
  EXPECT_EQ(tensors.size(), model->named_parameters().size());
}

TEST(Loading, AcceptsATiedWeightUnderEitherName) {
  const fs::path folder = model_folder("either_name");
  const auto model = AutoModelForCausalLM::from_config(tiny_gpt2());
  model->save_pretrained(folder);
  TensorMap tensors = accelerate::load_sharded(folder);
  auto node = tensors.extract("transformer.wte.weight");
  node.key() = "lm_head.weight";
  tensors.insert(std::move(node));
  accelerate::save_sharded(tensors, folder);

  const auto again = AutoModelForCausalLM::from_pretrained(folder.string());

  EXPECT_EQ(again->loading_report().text(), "");
  EXPECT_TRUE(again->parameters()[0].equal(model->parameters()[0]));
}

TEST(Loading, ReportsAMissingFolder) {
  EXPECT_EQ(
      message_of<ArgumentError>(
          [] { (void)AutoModel::from_pretrained("no/such/folder"); }),
      "`no/such/folder` is neither a folder nor a model name on the Hub");
}

}  // namespace
}  // namespace transformers
