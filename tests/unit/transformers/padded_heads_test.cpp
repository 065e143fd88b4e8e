// SPDX-License-Identifier: Apache-2.0
// Heads whose batches are padded to a few lengths before capture. The fake
// device replays captured graphs on the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include "accelerate/recordable_module.h"
#include "support/fake_device.h"
#include "transformers/transformers.h"
#include "unit/transformers/tiny_models.h"

namespace transformers {
namespace {

using accelerate::RecordableModule;
using accelerate::TensorMap;

struct StepResult {
  double loss = 0.0;
  at::Tensor logits;
  std::vector<at::Tensor> gradients;
};

template <typename Model>
StepResult step(const Model& model, const TensorMap& batch) {
  model.module()->zero_grad();
  const auto output = model(batch);
  output.loss.backward();
  StepResult result{output.loss.template item<double>(), output.logits, {}};
  for (const at::Tensor& parameter : model.module()->parameters()) {
    result.gradients.push_back(
        parameter.grad().defined() ? parameter.grad().clone()
                                   : at::zeros_like(parameter));
  }
  return result;
}

template <typename Model>
void set_record_steps(const Model& model, bool on) {
  dynamic_cast<RecordableModule&>(*model.module())
      .set_record_policy({.enabled = on});
}

TensorMap batch_of(std::int64_t tokens, bool with_mask) {
  const auto ids = at::randint(1, 50, {3, tokens}, at::kLong);
  TensorMap batch = {{"input_ids", ids}};
  if (with_mask) {
    auto mask = at::ones_like(ids);
    mask[1].slice(0, tokens - 2).zero_();
    batch.insert_or_assign("attention_mask", mask);
  }
  return batch;
}

// Lengths that share a captured graph give the same results as eager steps.
template <typename Model, typename Labels>
void expect_same(const Model& model, bool with_mask, const Labels& labels_of) {
  const accelerate::FakeDevice gpu{c10::kCPU};
  model.module()->train();
  for (std::int64_t tokens = 9; tokens <= 16; ++tokens) {
    SCOPED_TRACE(tokens);
    TensorMap batch = batch_of(tokens, with_mask);
    batch.insert_or_assign("labels", labels_of(batch.at("input_ids")));
    set_record_steps(model, false);
    const StepResult eager = step(model, batch);
    set_record_steps(model, true);
    StepResult replayed;
    for (int i = 0; i < 3; ++i) {  // Eager, captured, replayed.
      replayed = step(model, batch);
    }
    EXPECT_EQ(model->recorded_steps(), 2);
    EXPECT_NEAR(replayed.loss, eager.loss, 1e-5);
    ASSERT_EQ(replayed.logits.sizes(), eager.logits.sizes());
    EXPECT_TRUE(at::allclose(replayed.logits, eager.logits, 1e-4, 1e-5));
    for (std::size_t i = 0; i < eager.gradients.size(); ++i) {
      EXPECT_TRUE(
          at::allclose(replayed.gradients[i], eager.gradients[i], 1e-3, 1e-6))
          << i;
    }
  }
  set_record_steps(model, true);
  for (std::int64_t tokens = 9; tokens <= 16; ++tokens) {
    TensorMap batch = batch_of(tokens, with_mask);
    batch.insert_or_assign("labels", labels_of(batch.at("input_ids")));
    step(model, batch);
  }
  EXPECT_EQ(model->recorded_steps(), 7);  // One graph for all lengths.
}

BertConfig bert_without_dropout() {
  BertConfig config = tiny_bert();
  config.hidden_dropout_prob = 0.0;
  config.attention_probs_dropout_prob = 0.0;
  return config;
}

GPT2Config gpt2_without_dropout() {
  GPT2Config config = tiny_gpt2();
  config.resid_pdrop = 0.0;
  config.embd_pdrop = 0.0;
  config.attn_pdrop = 0.0;
  return config;
}

at::Tensor some_ignored(const at::Tensor& ids, std::int64_t classes) {
  return ids.remainder(classes).masked_fill(ids.remainder(3).eq(0), -100);
}

TEST(PaddedHeads, TokenClassification) {
  at::manual_seed(1);
  expect_same(
      AutoModelForTokenClassification::from_config(bert_without_dropout()),
      /*with_mask=*/true,
      [](const at::Tensor& ids) { return some_ignored(ids, 2); });
}

TEST(PaddedHeads, MaskedLanguageModeling) {
  at::manual_seed(2);
  expect_same(
      AutoModelForMaskedLM::from_config(bert_without_dropout()),
      /*with_mask=*/true,
      [](const at::Tensor& ids) { return some_ignored(ids, 50); });
}

TEST(PaddedHeads, CausalLanguageModelingWithAndWithoutAMask) {
  at::manual_seed(3);
  for (const bool with_mask : {false, true}) {
    expect_same(
        AutoModelForCausalLM::from_config(gpt2_without_dropout()),
        with_mask,
        [](const at::Tensor& ids) { return ids; });
  }
}

TEST(PaddedHeads, ClassificationByTheLastToken) {
  at::manual_seed(4);
  expect_same(
      AutoModelForSequenceClassification::from_config(gpt2_without_dropout()),
      /*with_mask=*/false,
      [](const at::Tensor& ids) { return ids.select(1, 0).remainder(2); });
}

TEST(PaddedHeads, EagerStepsPrintTheReasonOnce) {
  const accelerate::FakeDevice gpu{c10::kCPU};
  auto model = AutoModelForCausalLM::from_config(gpt2_without_dropout());
  model->train();
  TensorMap batch = batch_of(8, false);
  batch.insert_or_assign("labels", batch.at("input_ids"));
  const auto printed = [&](const std::string& reason) {
    dynamic_cast<RecordableModule&>(*model.module())
        .set_record_policy({reason.empty(), reason});
    testing::internal::CaptureStderr();
    for (int i = 0; i < 3; ++i) {
      step(model, batch);
    }
    return testing::internal::GetCapturedStderr();
  };

  EXPECT_EQ(printed(""), "");
  EXPECT_EQ(
      printed("there are 2 processes"),
      "note: CUDA graphs are off: there are 2 processes\n");
  model->gradient_checkpointing_enable();
  EXPECT_EQ(
      printed(""),
      "note: CUDA graphs are off: gradient checkpointing recomputes the "
      "layers in the backward pass\n");
  EXPECT_EQ(model->recorded_steps(), 0);
}

}  // namespace
}  // namespace transformers
