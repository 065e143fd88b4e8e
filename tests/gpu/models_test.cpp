// SPDX-License-Identifier: Apache-2.0
// Runs the tutorial's loop with this library's models, on a GPU and on the CPU.
#include <functional>

#include "accelerate/accelerate.h"
#include "gpu/gpu.h"
#include "transformers/transformers.h"

namespace accelerate {
namespace {

Json small_config(const char* type) {
  return Json::object(
      {{"model_type", type},
       {"vocab_size", 120},
       {"hidden_size", 64},
       {"n_embd", 64},
       {"dim", 64},
       {"num_hidden_layers", 2},
       {"n_layer", 2},
       {"n_layers", 2},
       {"num_attention_heads", 4},
       {"n_head", 4},
       {"n_heads", 4},
       {"num_key_value_heads", 2},
       {"intermediate_size", 128},
       {"hidden_dim", 128},
       {"max_position_embeddings", 64},
       {"n_positions", 64},
       // Dropout is off, because random numbers on a GPU differ from the CPU.
       {"hidden_dropout_prob", 0.0},
       {"attention_probs_dropout_prob", 0.0},
       {"resid_pdrop", 0.0},
       {"embd_pdrop", 0.0},
       {"attn_pdrop", 0.0},
       {"dropout", 0.0},
       {"attention_dropout", 0.0},
       {"seq_classif_dropout", 0.0}});
}

// Sentences of different lengths, padded.
TensorMap batch_for(bool classifies, c10::Device device) {
  const at::Tensor ids =
      at::arange(4 * 12, at::kLong).mul(7).remainder(119).view({4, 12});
  at::Tensor mask = at::ones({4, 12}, at::kLong);
  mask[1].narrow(0, 8, 4).zero_();
  mask[3].narrow(0, 3, 9).zero_();
  const at::Tensor labels =
      classifies ? at::arange(4, at::kLong).remainder(2) : ids;
  return {
      {"input_ids", ids.to(device)},
      {"attention_mask", mask.to(device)},
      {"labels", labels.to(device)}};
}

struct ModelCase {
  const char* type;
  bool classifies;
};

struct Losses {
  std::vector<double> values;
  std::vector<std::string> syncs;  // The calls in the second half of the steps.
};

template <typename Model>
Losses train_model(
    Model model,
    const ModelCase& model_case,
    PartialState state,
    Precision precision = Precision::no) {
  Accelerator accelerator(std::move(state), {.mixed_precision = precision});
  transformers::AdamW optimizer(model->parameters(), 1e-3);
  auto scheduler = transformers::get_scheduler(
      "linear", optimizer, {.num_warmup_steps = 2, .num_training_steps = 8});
  accelerator.prepare(model, optimizer, scheduler);
  const TensorMap batch =
      batch_for(model_case.classifies, accelerator.device());
  model->train();
  std::unique_ptr<SyncCounter> counter;
  std::vector<at::Tensor> losses;
  for (int step = 0; step < 8; ++step) {
    if (step == 4 && !accelerator.device().is_cpu()) {
      counter = std::make_unique<SyncCounter>();
    }
    auto outputs = model(batch);
    accelerator.backward(outputs.loss);
    optimizer.step();
    scheduler.step();
    optimizer.zero_grad();
    losses.push_back(outputs.loss.detach());
  }
  Losses result;
  if (counter) {
    result.syncs = counter->calls();
    counter.reset();
  }
  for (const at::Tensor& loss : losses) {
    result.values.push_back(loss.item<double>());
  }
  return result;
}

Losses train_case(const ModelCase& model_case, c10::Device device) {
  const auto config =
      transformers::Config::from_json(small_config(model_case.type));
  at::manual_seed(3);
  return model_case.classifies
             ? train_model(
                   transformers::AutoModelForSequenceClassification::
                       from_config(config),
                   model_case,
                   single_process_on(device))
             : train_model(
                   transformers::AutoModelForCausalLM::from_config(config),
                   model_case,
                   single_process_on(device));
}

class GpuModels : public testing::TestWithParam<ModelCase> {};

TEST_P(GpuModels, MatchTheCpuWithoutSynchronisation) {
  ACCELERATE_NEEDS_GPU();
  const Losses cpu_run = train_case(GetParam(), c10::Device(c10::kCPU));

  const Losses gpu_run = train_case(GetParam(), gpu());

  for (std::size_t i = 0; i < cpu_run.values.size(); ++i) {
    EXPECT_NEAR(gpu_run.values[i], cpu_run.values[i], 2e-4) << "step " << i;
  }
  EXPECT_THAT(gpu_run.syncs, testing::IsEmpty());
  EXPECT_LT(gpu_run.values.back(), gpu_run.values.front());
}

// Fused blocks and CUDA graphs.
TEST_P(GpuModels, TrainInMixedPrecisionWithoutSynchronisation) {
  ACCELERATE_NEEDS_GPU();
  const auto config =
      transformers::Config::from_json(small_config(GetParam().type));
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    at::manual_seed(3);
    const Losses gpu_run =
        GetParam().classifies
            ? train_model(
                  transformers::AutoModelForSequenceClassification::from_config(
                      config),
                  GetParam(),
                  single_process_on(gpu()),
                  precision)
            : train_model(
                  transformers::AutoModelForCausalLM::from_config(config),
                  GetParam(),
                  single_process_on(gpu()),
                  precision);

    EXPECT_THAT(gpu_run.syncs, testing::IsEmpty()) << name_of(precision);
    EXPECT_LT(gpu_run.values.back(), gpu_run.values.front());
  }
}

// A captured step uses bf16 copies of the parameters.
TEST(GpuModelGraph, SeesParametersThatTheProgramChanged) {
  ACCELERATE_NEEDS_GPU();
  const auto config = transformers::Config::from_json(small_config("bert"));
  const ModelCase model_case{"bert", true};
  std::vector<std::vector<double>> runs;
  for (const bool graphed : {false, true}) {
    at::manual_seed(3);
    auto model =
        transformers::AutoModelForSequenceClassification::from_config(config);
    Accelerator accelerator(
        single_process_on(gpu()),
        {.mixed_precision = Precision::bf16, .record_steps = false});
    transformers::AdamW optimizer(model->parameters(), 1e-3);
    accelerator.prepare(model, optimizer);
    model->train();
    TensorMap batch = batch_for(model_case.classifies, accelerator.device());
    const auto eager = [&](const TensorMap& inputs) {
      auto outputs = model(inputs);
      accelerator.backward(outputs.loss);
      optimizer.step();
      optimizer.zero_grad();
      return outputs.loss.detach();
    };
    auto step = accelerator.graph(eager);
    std::vector<double> losses;
    for (int i = 0; i < 8; ++i) {
      if (i == 6) {
        const at::NoGradGuard no_grad;
        for (const at::Tensor& parameter : model->parameters()) {
          parameter.mul_(0.5);
        }
      }
      losses.push_back((graphed ? step(batch) : eager(batch)).item<double>());
    }
    EXPECT_EQ(step.core().num_graphs(), graphed ? 1 : 0)
        << step.core().why_not();
    runs.push_back(std::move(losses));
  }
  for (std::size_t i = 0; i < runs[0].size(); ++i) {
    EXPECT_NEAR(runs[0][i], runs[1][i], 1e-4) << "step " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All,
    GpuModels,
    testing::Values(
        ModelCase{"bert", true},
        ModelCase{"distilbert", true},
        ModelCase{"roberta", true},
        ModelCase{"gpt2", false},
        ModelCase{"llama", false}),
    [](const auto& test) { return std::string(test.param.type); });

}  // namespace
}  // namespace accelerate
