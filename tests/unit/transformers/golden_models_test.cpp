// SPDX-License-Identifier: Apache-2.0
// Compares each model and head with the results of Hugging Face Transformers,
// which tests/parity/make_models.py has saved.
#include <cstdlib>
#include <filesystem>
#include <functional>

#include <gtest/gtest.h>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "accelerate/json.h"
#include "accelerate/safetensors.h"
#include "base/files.h"
#include "support/temporary_directory.h"
#include "transformers/auto_model.h"
#include "transformers/optimization.h"

namespace transformers {
namespace {

using accelerate::Json;
using accelerate::TensorMap;

constexpr double kTolerance = 1e-5;

struct GoldenCase {
  std::string name;
  std::string head;
};

void PrintTo(const GoldenCase& golden_case, std::ostream* out) {
  *out << golden_case.name;
}

/// Returns the folder of the golden files in the source tree, or of the files
/// that tests/parity/run.sh has written.
std::string golden_folder() {
  const char* variable = std::getenv("ACCELERATE_GOLDEN");
  return std::string(variable != nullptr ? variable : ACCELERATE_GOLDEN) +
         "/models/";
}

std::vector<GoldenCase> golden_cases() {
  std::vector<GoldenCase> cases;
  const Json list = Json::parse(
      accelerate::read_file(golden_folder() + "cases.json", 1 << 20));
  for (const Json& entry : list.as_array()) {
    cases.push_back(
        {entry.at("name").as_string(), entry.at("head").as_string()});
  }
  return cases;
}

/// Returns the tensors whose names begin with `kind`, without that prefix.
TensorMap part(const TensorMap& tensors, const std::string& kind) {
  TensorMap result;
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(kind + ".")) {
      result.emplace(name.substr(kind.size() + 1), tensor);
    }
  }
  return result;
}

/// A model with any head.
struct AnyModel {
  PreTrainedModel* model = nullptr;
  /// Returns the outputs under their Python names.
  std::function<TensorMap(const TensorMap&)> call;
  /// Returns the hidden states and attentions, numbered.
  std::function<TensorMap(const TensorMap&)> call_for_states;
};

template <typename Handle>
AnyModel any_model(Handle handle) {
  const auto call = [handle](const TensorMap& inputs) -> TensorMap {
    const auto output = handle(inputs);
    if constexpr (requires { output.start_logits; }) {
      return {
          {"loss", output.loss},
          {"start_logits", output.start_logits},
          {"end_logits", output.end_logits}};
    } else if constexpr (requires { output.last_hidden_state; }) {
      return {
          {"last_hidden_state", output.last_hidden_state},
          {"pooler_output", output.pooler_output}};
    } else {
      return {{"loss", output.loss}, {"logits", output.logits}};
    }
  };
  const auto call_for_states = [handle](const TensorMap& inputs) {
    const auto output = handle(
        inputs, {.output_hidden_states = true, .output_attentions = true});
    TensorMap states;
    for (std::size_t i = 0; i < output.hidden_states.size(); ++i) {
      states["hidden_states." + std::to_string(i)] = output.hidden_states[i];
    }
    for (std::size_t i = 0; i < output.attentions.size(); ++i) {
      states["attentions." + std::to_string(i)] = output.attentions[i];
    }
    return states;
  };
  return {&*handle, call, call_for_states};
}

AnyModel load(
    const GoldenCase& golden_case, const FromPretrainedOptions& options = {}) {
  const std::string folder = golden_folder() + golden_case.name;
  if (golden_case.head == "base") {
    return any_model(AutoModel::from_pretrained(folder, options));
  }
  if (golden_case.head == "sequence_classification") {
    return any_model(
        AutoModelForSequenceClassification::from_pretrained(folder, options));
  }
  if (golden_case.head == "token_classification") {
    return any_model(
        AutoModelForTokenClassification::from_pretrained(folder, options));
  }
  if (golden_case.head == "question_answering") {
    return any_model(
        AutoModelForQuestionAnswering::from_pretrained(folder, options));
  }
  if (golden_case.head == "masked_lm") {
    return any_model(AutoModelForMaskedLM::from_pretrained(folder, options));
  }
  return any_model(AutoModelForCausalLM::from_pretrained(folder, options));
}

at::Tensor loss_of(const TensorMap& outputs) {
  if (outputs.contains("loss")) {
    return outputs.at("loss");
  }
  const auto total = outputs.at("last_hidden_state").square().mean();
  const auto& pooled = outputs.at("pooler_output");
  return pooled.defined() ? total + pooled.square().mean() : total;
}

/// Sorts the members of objects by name, and converts 16 to 16.0.
Json sorted(const Json& value) {
  if (!value.is_object()) {
    return value.is_number() ? Json(value.as_double()) : value;
  }
  std::map<std::string, Json> members;
  for (const auto& [key, member] : value.as_object()) {
    members[key] = sorted(member);
  }
  Json result = Json::object();
  for (const auto& [key, member] : members) {
    result[key] = member;
  }
  return result;
}

void expect_close(
    const std::string& name,
    const at::Tensor& actual,
    const at::Tensor& expected) {
  ASSERT_TRUE(actual.defined()) << name;
  ASSERT_EQ(actual.sizes(), expected.sizes()) << name;
  const double error =
      actual.numel() == 0
          ? 0.0
          : (actual.detach() - expected).abs().max().item<double>();
  EXPECT_LE(error, kTolerance) << name;
}

/// Masks parameters whose update is only rounding noise. The gradient of a bias
/// before a softmax (of the keys, of an answer's logits) is 0 except for
/// rounding, and AdamW normalizes it to an arbitrary step.
at::Tensor has_direction(const TensorMap& golden, const std::string& name) {
  const auto found = golden.find("grad." + name);
  if (found == golden.end() || found->second.dim() > 1) {
    return at::ones({}, at::kBool);
  }
  return found->second.abs().ge(1e-6);
}

class GoldenModel : public testing::TestWithParam<GoldenCase> {
 protected:
  void SetUp() override {
    golden = accelerate::load_safetensors(
        golden_folder() + GetParam().name + "/golden.safetensors");
    // Python made these cases with eager attention.
    const bool is_eager = GetParam().name.ends_with("_eager");
    loaded =
        load(GetParam(), {.attn_implementation = is_eager ? "eager" : "sdpa"});
  }
  TensorMap golden;
  AnyModel loaded;
};

TEST_P(GoldenModel, HasNoMissingOrUnusedWeights) {
  const LoadingReport& report = loaded.model->loading_report();

  EXPECT_EQ(report.missing, std::vector<std::string>());
  EXPECT_EQ(report.unexpected, std::vector<std::string>());
  EXPECT_EQ(report.text(), "");
}

TEST_P(GoldenModel, ComputesTheSameAsPython) {
  const TensorMap outputs = loaded.call(part(golden, "input"));

  const TensorMap expected = part(golden, "output");
  EXPECT_FALSE(expected.empty());
  for (const auto& [name, tensor] : expected) {
    if (name.find('.') == std::string::npos) {
      expect_close(name, outputs.at(name), tensor);
    }
  }
}

TEST_P(GoldenModel, HasTheSameHiddenStatesAsPython) {
  TensorMap expected = part(golden, "output");
  std::erase_if(expected, [](const auto& entry) {
    return entry.first.find('.') == std::string::npos;
  });
  // Only cases with this suffix have saved states.
  ASSERT_EQ(expected.empty(), !GetParam().name.ends_with("_states"));
  if (expected.empty()) {
    return;
  }

  const TensorMap states = loaded.call_for_states(part(golden, "input"));

  EXPECT_EQ(states.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    expect_close(name, states.at(name), tensor);
  }
}

TEST_P(GoldenModel, HasTheSameGradientsAsPython) {
  loss_of(loaded.call(part(golden, "input"))).backward();

  const TensorMap expected = part(golden, "grad");
  std::size_t compared = 0;
  for (const auto& [name, parameter] : loaded.model->named_parameters()) {
    EXPECT_EQ(parameter.grad().defined(), expected.contains(name)) << name;
    if (parameter.grad().defined()) {
      expect_close(name, parameter.grad(), expected.at(name));
      ++compared;
    }
  }
  EXPECT_EQ(compared, expected.size());
}

TEST_P(GoldenModel, TrainsTheSameAsPython) {
  const TensorMap inputs = part(golden, "input");
  AdamW optimizer(loaded.model->parameters(), 1e-3);
  auto schedule = get_scheduler(
      "linear", optimizer, {.num_warmup_steps = 2, .num_training_steps = 10});
  for (int step = 0; step < 10; ++step) {
    loss_of(loaded.call(inputs)).backward();
    optimizer.step();
    schedule.step();
    optimizer.zero_grad();
  }

  const TensorMap expected = part(golden, "after");
  const auto parameters = loaded.model->named_parameters();
  EXPECT_EQ(parameters.size(), expected.size());
  for (const auto& [name, parameter] : parameters) {
    const at::Tensor mask = has_direction(golden, name);
    expect_close(
        name,
        at::where(mask, parameter.detach(), 0.0),
        at::where(mask, expected.at(name), 0.0));
  }
}

TEST_P(GoldenModel, ComputesTheSameWithEagerAttention) {
  const AnyModel eager = load(GetParam(), {.attn_implementation = "eager"});

  const TensorMap outputs = eager.call(part(golden, "input"));

  // For a row that attends to no token, fused attention returns 0 and eager
  // attention a mean. Only real tokens are compared.
  const auto real_BT = golden.at("input.attention_mask").ne(0);
  for (const auto& [name, tensor] : part(golden, "output")) {
    if (name == "loss" || tensor.dim() < 3 ||
        name.find('.') != std::string::npos) {
      continue;
    }
    expect_close(
        name, outputs.at(name).index({real_BT}), tensor.index({real_BT}));
  }
}

TEST_P(GoldenModel, IsSavedTheSameAsInPython) {
  const std::string python_folder = golden_folder() + GetParam().name;
  const std::string folder = accelerate::fresh_folder();

  loaded.model->save_pretrained(folder);

  const accelerate::SafetensorsFile expected(
      python_folder + "/model.safetensors");
  const accelerate::SafetensorsFile actual(folder + "/model.safetensors");
  EXPECT_EQ(actual.metadata(), expected.metadata());
  EXPECT_EQ(actual.names().size(), expected.names().size());
  for (const std::string& name : expected.names()) {
    ASSERT_TRUE(actual.contains(name)) << name;
    EXPECT_TRUE(actual.tensor(name).equal(expected.tensor(name))) << name;
  }
  const auto config_in = [](const std::string& path) {
    return Json::parse(accelerate::read_file(path + "/config.json", 1 << 20));
  };
  const Json config = config_in(folder);
  const Json python_config = config_in(python_folder);
  for (const auto& [key, value] : python_config.as_object()) {
    ASSERT_TRUE(config.contains(key)) << key;
    EXPECT_EQ(sorted(config.at(key)), sorted(value)) << key;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models,
    GoldenModel,
    testing::ValuesIn(golden_cases()),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace transformers
