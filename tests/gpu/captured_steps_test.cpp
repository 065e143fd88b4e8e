// SPDX-License-Identifier: Apache-2.0
// Runs the tutorial's loop with this library's models, with and without CUDA
// graphs. With LibTorch's deterministic algorithms, the results must be bitwise
// equal.
#include <algorithm>
#include <array>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include "accelerate/accelerate.h"
#include "gpu/gpu.h"
#include "transformers/transformers.h"

namespace accelerate {
namespace {

using transformers::AutoModelForCausalLM;
using transformers::AutoModelForSequenceClassification;

// LibTorch requires CUBLAS_WORKSPACE_CONFIG=:4096:8 for this; see
// CMakeLists.txt.
class Deterministic {
 public:
  Deterministic() {
    at::globalContext().setDeterministicAlgorithms(true, false);
  }
  Deterministic(const Deterministic&) = delete;
  Deterministic& operator=(const Deterministic&) = delete;
  ~Deterministic() {
    at::globalContext().setDeterministicAlgorithms(false, false);
  }
};

auto small_bert(double dropout) {
  transformers::BertConfig config;
  config.vocab_size = 200;
  config.hidden_size = 128;
  config.num_hidden_layers = 3;
  config.num_attention_heads = 2;
  config.intermediate_size = 256;
  config.max_position_embeddings = 64;
  config.hidden_dropout_prob = dropout;
  config.attention_probs_dropout_prob = dropout;
  at::manual_seed(3);
  return AutoModelForSequenceClassification::from_config(config);
}

auto small_gpt2(double dropout) {
  transformers::GPT2Config config;
  config.vocab_size = 203;
  config.n_embd = 128;
  config.n_layer = 3;
  config.n_head = 2;
  config.n_positions = 64;
  config.resid_pdrop = config.embd_pdrop = config.attn_pdrop = dropout;
  at::manual_seed(4);
  return AutoModelForCausalLM::from_config(config);
}

struct Shape {
  std::int64_t rows, tokens;
};

// Three shapes alternate. Batches for classification have padding.
TensorMap batch_of(int step, bool classifies) {
  const Shape shape =
      std::array{Shape{4, 16}, Shape{2, 24}, Shape{6, 32}}[step % 3];
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(
      static_cast<std::uint64_t>(step + 1));
  const at::Tensor ids =
      at::randint(1, 200, {shape.rows, shape.tokens}, generator, at::kLong);
  if (!classifies) {
    return {{"input_ids", ids.to(gpu())}, {"labels", ids.to(gpu())}};
  }
  at::Tensor mask = at::ones_like(ids);
  mask[1].narrow(0, 9, shape.tokens - 9).zero_();
  const at::Tensor labels = ids.select(1, 1).remainder(2);
  return {
      {"input_ids", ids.to(gpu())},
      {"attention_mask", mask.to(gpu())},
      {"labels", labels.to(gpu())}};
}

struct Trained {
  std::vector<double> losses;
  std::vector<at::Tensor> parameters;
  std::vector<bool> skipped;
  std::int64_t replayed_steps = 0;
};

struct TrainOptions {
  bool record_steps = true;
  std::int64_t accumulation = 1;
  Precision precision = Precision::bf16;
  double init_scale = 65536;
  int steps = 20;
  bool zeroes_in_place = false;
  double clip = 0;
};

template <typename Model>
Trained train(Model model, bool classifies, const TrainOptions& options) {
  Accelerator accelerator(
      single_process_on(gpu()),
      {.mixed_precision = options.precision,
       .gradient_accumulation_steps = options.accumulation,
       .record_steps = options.record_steps,
       .scaler_kwargs = {
           .init_scale = options.init_scale, .growth_interval = 4}});
  transformers::AdamW optimizer(model->parameters(), 1e-3);
  accelerator.prepare(model, optimizer);
  auto scheduler = transformers::get_scheduler(
      "linear",
      optimizer,
      {.num_warmup_steps = 3, .num_training_steps = options.steps});
  model->train();
  at::manual_seed(7);
  Trained run;
  std::vector<at::Tensor> losses;
  for (int step = 0; step < options.steps; ++step) {
    const auto region = accelerator.accumulate();
    const TensorMap batch = batch_of(step, classifies);
    auto outputs = model(batch);
    accelerator.backward(outputs.loss);
    if (options.clip > 0 && accelerator.sync_gradients()) {
      accelerator.clip_grad_norm_(model->parameters(), options.clip);
    }
    optimizer.step();
    scheduler.step();
    if (options.precision == Precision::fp16) {
      run.skipped.push_back(accelerator.optimizer_step_was_skipped());
    }
    optimizer.zero_grad(/*set_to_none=*/!options.zeroes_in_place);
    losses.push_back(outputs.loss.detach());
  }
  for (const at::Tensor& loss : losses) {
    run.losses.push_back(loss.item<double>());
  }
  for (const at::Tensor& parameter : model->parameters()) {
    run.parameters.push_back(parameter.detach().cpu());
  }
  run.replayed_steps = model->recorded_steps();
  return run;
}

Trained train(
    bool classifies, const TrainOptions& options, double dropout = 0.1) {
  return classifies ? train(small_bert(dropout), true, options)
                    : train(small_gpt2(dropout), false, options);
}

void expect_same(const Trained& captured, const Trained& eager) {
  EXPECT_EQ(captured.losses, eager.losses);
  int differ = 0;
  for (std::size_t i = 0; i < eager.parameters.size(); ++i) {
    differ += captured.parameters[i].equal(eager.parameters[i]) ? 0 : 1;
  }
  EXPECT_EQ(differ, 0) << "of " << eager.parameters.size();
  EXPECT_EQ(eager.replayed_steps, 0);
}

class GpuCapturedSteps : public testing::TestWithParam<bool> {};

// The first call with each of three shapes runs eagerly.
TEST_P(GpuCapturedSteps, MatchEagerStepsBitForBit) {
  ACCELERATE_NEEDS_GPU();
  const Deterministic mode;
  for (const std::int64_t accumulation : {1, 3}) {
    SCOPED_TRACE(accumulation);
    TrainOptions options = {.accumulation = accumulation};
    const Trained captured = train(GetParam(), options);
    options.record_steps = false;

    expect_same(captured, train(GetParam(), options));
    EXPECT_EQ(captured.replayed_steps, 20 - 3);
  }
}

TEST_P(GpuCapturedSteps, SupportGradientsZeroedInPlaceOrClipped) {
  ACCELERATE_NEEDS_GPU();
  const Deterministic mode;
  TrainOptions options = {.zeroes_in_place = true, .clip = 0.5};
  const Trained captured = train(GetParam(), options);
  options.record_steps = false;

  expect_same(captured, train(GetParam(), options));
}

TEST_P(GpuCapturedSteps, SkipTheSameStepsInFp16) {
  ACCELERATE_NEEDS_GPU();
  const Deterministic mode;
  // Gradients overflow until the loss scale has been halved often enough, and
  // again whenever the loss scale has grown.
  TrainOptions options = {
      .precision = Precision::fp16, .init_scale = 0x1p30, .steps = 40};
  const Trained captured = train(GetParam(), options);
  options.record_steps = false;
  const Trained eager = train(GetParam(), options);

  expect_same(captured, eager);
  EXPECT_EQ(captured.skipped, eager.skipped);
  const auto count =
      std::count(eager.skipped.begin(), eager.skipped.end(), true);
  EXPECT_GT(count, 2);
  EXPECT_LT(count, 38);
  std::cout << count << " of 40 steps were skipped\n";
}

INSTANTIATE_TEST_SUITE_P(
    All, GpuCapturedSteps, testing::Values(true, false), [](const auto& test) {
      return std::string(test.param ? "bert" : "gpt2");
    });

// Steps that differ from the tutorial's loop.
template <typename Step>
std::vector<at::Tensor> parameters_after(bool record_steps, Step step) {
  Accelerator accelerator(
      single_process_on(gpu()),
      {.mixed_precision = Precision::bf16, .record_steps = record_steps});
  auto model = small_bert(0.1);
  transformers::AdamW optimizer(model->parameters(), 1e-3);
  accelerator.prepare(model, optimizer);
  model->train();
  at::manual_seed(5);
  for (int i = 0; i < 6; ++i) {
    accelerator.backward(step(model, i));
    optimizer.step();
    optimizer.zero_grad();
  }
  std::vector<at::Tensor> result;
  for (const at::Tensor& parameter : model->parameters()) {
    result.push_back(parameter.detach().cpu());
  }
  return result;
}

template <typename Step>
void expect_same_steps(Step step) {
  const Deterministic mode;
  const auto captured = parameters_after(true, step);
  const auto eager = parameters_after(false, step);
  for (std::size_t i = 0; i < eager.size(); ++i) {
    EXPECT_TRUE(captured[i].equal(eager[i])) << i;
  }
}

TEST(GpuCapturedModel, SupportsTwoForwardsBeforeOneBackward) {
  ACCELERATE_NEEDS_GPU();
  expect_same_steps([](auto& model, int) {
    const auto first = model(batch_of(0, true)).loss;
    return first + model(batch_of(3, true)).loss;
  });
}

TEST(GpuCapturedModel, SupportsLossesOfLogits) {
  ACCELERATE_NEEDS_GPU();
  expect_same_steps([](auto& model, int i) {
    const auto outputs = model(batch_of(0, true));
    return i % 2 == 0 ? outputs.logits.square().sum()
                      : outputs.loss + outputs.logits.mean();
  });
}

TEST(GpuCapturedModel, SupportsForwardsWithoutBackward) {
  ACCELERATE_NEEDS_GPU();
  expect_same_steps([](auto& model, int) {
    model(batch_of(0, true));
    return model(batch_of(0, true)).loss;
  });
}

TEST(GpuCapturedModel, SupportsOtherGraphsBetweenForwardAndBackward) {
  ACCELERATE_NEEDS_GPU();
  // Both modules draw dropout masks again in the backward pass, each from its
  // own seed and offset.
  const auto run = [](bool record_steps) {
    Accelerator accelerator(
        single_process_on(gpu()),
        {.mixed_precision = Precision::bf16, .record_steps = record_steps});
    auto bert = small_bert(0.3);
    auto gpt2 = small_gpt2(0.3);
    transformers::AdamW first(bert->parameters(), 1e-3);
    transformers::AdamW second(gpt2->parameters(), 1e-3);
    accelerator.prepare(bert, gpt2, first, second);
    bert->train();
    gpt2->train();
    at::manual_seed(6);
    for (int i = 0; i < 5; ++i) {
      const auto outer = bert(batch_of(0, true)).loss;
      const auto inner = gpt2(batch_of(0, false)).loss;
      accelerator.backward(inner);
      accelerator.backward(outer);
      first.step();
      second.step();
      first.zero_grad();
      second.zero_grad();
    }
    std::vector<at::Tensor> result;
    for (const auto& parameter : bert->parameters()) {
      result.push_back(parameter.detach().cpu());
    }
    EXPECT_EQ(bert->recorded_steps(), record_steps ? 4 : 0);
    return result;
  };
  const Deterministic mode;
  const auto captured = run(true);
  const auto eager = run(false);
  for (std::size_t i = 0; i < eager.size(); ++i) {
    EXPECT_TRUE(captured[i].equal(eager[i])) << i;
  }
}

TEST(GpuCapturedModel, PadsToAFewLengths) {
  ACCELERATE_NEEDS_GPU();
  Accelerator accelerator(
      single_process_on(gpu()), {.mixed_precision = Precision::bf16});
  auto model = small_bert(0.0);
  accelerator.prepare(model);
  model->train();
  const TensorMap longest = batch_of(2, true);
  for (std::int64_t tokens = 10; tokens <= 32; ++tokens) {
    TensorMap batch;
    for (const auto& [name, tensor] : longest) {
      batch.emplace(
          name, tensor.dim() == 2 ? tensor.narrow(1, 0, tokens) : tensor);
    }
    const auto padded = model(batch).loss;
    model->eval();
    const auto unpadded = model(batch).loss;
    model->train();

    EXPECT_NEAR(padded.item<double>(), unpadded.item<double>(), 1e-2) << tokens;
    accelerator.backward(padded);
  }
  // Padded to 16, 24 and 32; the first call of each length runs eagerly.
  EXPECT_EQ(model->recorded_steps(), 23 - 3);
}

// A causal model needs no mask for padding, and returns as many logits as
// tokens.
TEST(GpuCapturedModel, PadsCausalBatchesToAFewLengths) {
  ACCELERATE_NEEDS_GPU();
  Accelerator accelerator(
      single_process_on(gpu()), {.mixed_precision = Precision::bf16});
  auto model = small_gpt2(0.0);
  accelerator.prepare(model);
  model->train();
  const at::Tensor ids = batch_of(2, false).at("input_ids");
  for (std::int64_t tokens = 10; tokens <= 32; ++tokens) {
    const at::Tensor shortened = ids.narrow(1, 0, tokens);
    const TensorMap batch = {{"input_ids", shortened}, {"labels", shortened}};
    const auto padded = model(batch, {.output_logits = true});
    model->eval();
    const auto unpadded = model(batch);
    model->train();

    EXPECT_NEAR(padded.loss.item<double>(), unpadded.loss.item<double>(), 1e-2)
        << tokens;
    ASSERT_EQ(padded.logits.sizes(), unpadded.logits.sizes());
    EXPECT_TRUE(at::allclose(padded.logits, unpadded.logits, 2e-2, 2e-2));
    accelerator.backward(padded.loss);
  }
  EXPECT_EQ(model->recorded_steps(), 23 - 3);
}

TEST(GpuCapturedModel, ThrowsOnASecondBackward) {
  ACCELERATE_NEEDS_GPU();
  Accelerator accelerator(
      single_process_on(gpu()), {.mixed_precision = Precision::bf16});
  auto model = small_bert(0.0);
  accelerator.prepare(model);
  model->train();
  for (int i = 0; i < 3; ++i) {
    accelerator.backward(model(batch_of(0, true)).loss);
  }
  const auto loss = model(batch_of(0, true)).loss;
  accelerator.backward(loss, {.retain_graph = true});

  EXPECT_THROW(accelerator.backward(loss), StateError);
}

TEST(GpuLogits, AreComputedWhenTheyAreRead) {
  ACCELERATE_NEEDS_GPU();
  Accelerator accelerator(
      single_process_on(gpu()), {.mixed_precision = Precision::bf16});
  auto model = small_gpt2(0.0);
  accelerator.prepare(model);
  const TensorMap batch = batch_of(0, false);
  model->eval();
  const auto expected = model(batch).logits;
  model->train();
  for (int i = 0; i < 3; ++i) {
    const auto outputs = model(batch);
    EXPECT_EQ(outputs.logits.device(), expected.device());
    EXPECT_EQ(outputs.logits.sizes(), expected.sizes());
    EXPECT_TRUE(at::allclose(outputs.logits, expected, 1e-2, 1e-2));
    accelerator.backward(outputs.loss + 0.0 * outputs.logits.sum());
  }
  EXPECT_EQ(model->recorded_steps(), 2);

  const auto with = model(batch, {.output_logits = true});
  EXPECT_TRUE(at::allclose(with.logits, expected, 1e-2, 1e-2));
  with.logits.sum().backward();
}

}  // namespace
}  // namespace accelerate
