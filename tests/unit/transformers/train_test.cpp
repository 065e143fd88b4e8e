// SPDX-License-Identifier: Apache-2.0
// The training loop of the tutorial with a small model.
#include <filesystem>
#include <vector>

#include <gtest/gtest.h>

#include <torch/types.h>
#include <torch/utils.h>

#include "accelerate/accelerate.h"
#include "support/temporary_directory.h"
#include "transformers/transformers.h"

namespace transformers {
namespace {

/// Rows of two tokens. The label is the parity of the first token.
struct EvenTokens {
  std::int64_t size() const { return 64; }
  accelerate::TensorMap get(std::size_t index) const {
    const auto first = static_cast<std::int64_t>(index % 8) + 3;
    const auto second = static_cast<std::int64_t>(index / 8) + 3;
    return {
        {"input_ids", at::tensor({first, second}, at::kLong)},
        {"attention_mask", at::ones({2}, at::kLong)},
        {"labels", at::scalar_tensor(first % 2, at::kLong)}};
  }
};

std::string saved_checkpoint() {
  torch::manual_seed(0);
  const std::string folder = accelerate::fresh_folder();
  AutoModel::from_config(BertConfig{
                             .vocab_size = 20,
                             .hidden_size = 16,
                             .num_hidden_layers = 1,
                             .num_attention_heads = 2,
                             .intermediate_size = 32,
                             .max_position_embeddings = 8})
      ->save_pretrained(folder);
  return folder;
}

/// Runs the tutorial's code and returns the losses of five epochs.
std::vector<double> train(accelerate::Accelerator& accelerator) {
  const std::string checkpoint = saved_checkpoint();
  accelerate::DataLoader train_dataloader(EvenTokens(), {.batch_size = 16});

  auto model =
      transformers::AutoModelForSequenceClassification::from_pretrained(
          checkpoint, {.num_labels = 2, .report = false});
  transformers::AdamW optimizer(model->parameters(), 5e-3);

  accelerator.prepare(train_dataloader, model, optimizer);

  const int num_epochs = 5;
  const auto num_training_steps = num_epochs * train_dataloader.size();
  auto lr_scheduler = transformers::get_scheduler(
      "linear",
      optimizer,
      {.num_warmup_steps = 0, .num_training_steps = num_training_steps});

  std::vector<double> losses;
  model->train();
  for (int epoch = 0; epoch < num_epochs; ++epoch) {
    for (auto& batch : train_dataloader) {
      auto outputs = model(batch);
      EXPECT_EQ(outputs.loss.scalar_type(), at::kFloat);
      EXPECT_EQ(outputs.logits.scalar_type(), at::kFloat);
      accelerator.backward(outputs.loss);

      optimizer.step();
      lr_scheduler.step();
      optimizer.zero_grad();
      losses.push_back(outputs.loss.template item<double>());
    }
  }
  return losses;
}

TEST(Train, TheTutorialsLoopReducesTheLoss) {
  accelerate::Accelerator accelerator({.cpu = true});

  const auto losses = train(accelerator);

  ASSERT_EQ(losses.size(), 20U);
  EXPECT_LT(losses.back(), 0.8 * losses.front());
}

TEST(Train, UsesMixedPrecisionInsideTheModel) {
  accelerate::Accelerator plain({.cpu = true});
  const auto expected = train(plain);
  accelerate::Accelerator accelerator(
      {.mixed_precision = accelerate::Precision::bf16, .cpu = true});

  const auto losses = train(accelerator);

  EXPECT_NE(losses.front(), expected.front());  // The model used bf16.
  EXPECT_NEAR(losses.front(), expected.front(), 1e-2);
  EXPECT_LT(losses.back(), 0.8 * losses.front());
}

}  // namespace
}  // namespace transformers
