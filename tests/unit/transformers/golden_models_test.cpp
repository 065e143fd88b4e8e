// SPDX-License-Identifier: Apache-2.0
// Each model and head against what Python Transformers computed; the folders
// are made by tests/parity/make_models.py.
#include <cstdlib>
#include <filesystem>
#include <functional>

#include <gtest/gtest.h>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "accelerate/json.h"
#include "accelerate/safetensors.h"
#include "base/files.h"
#include "support/temporary_folder.h"
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

void PrintTo(const GoldenCase& tested, std::ostream* out) {
  *out << tested.name;
}

/// The tree's, or where tests/parity/run.sh has made them anew.
std::string golden_folder() {
  const char* other = std::getenv("ACCELERATE_GOLDEN");
  return std::string(other != nullptr ? other : ACCELERATE_GOLDEN) + "/models/";
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

/// The tensors whose names begin with `kind`, without it.
TensorMap part(const TensorMap& tensors, const std::string& kind) {
  TensorMap result;
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(kind + ".")) {
      result.emplace(name.substr(kind.size() + 1), tensor);
    }
  }
  return result;
}

/// The model of a case, whichever its head.
struct AnyModel {
  PreTrainedModel* model = nullptr;
  /// Outputs by Python's names.
  std::function<TensorMap(const TensorMap&)> call;
  /// With the hidden states and attentions, numbered.
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
    const GoldenCase& tested, const FromPretrainedOptions& options = {}) {
  const std::string folder = golden_folder() + tested.name;
  if (tested.head == "base") {
    return any_model(AutoModel::from_pretrained(folder, options));
  }
  if (tested.head == "sequence_classification") {
    return any_model(
        AutoModelForSequenceClassification::from_pretrained(folder, options));
  }
  if (tested.head == "token_classification") {
    return any_model(
        AutoModelForTokenClassification::from_pretrained(folder, options));
  }
  if (tested.head == "question_answering") {
    return any_model(
        AutoModelForQuestionAnswering::from_pretrained(folder, options));
  }
  if (tested.head == "masked_lm") {
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

/// The same with the members of an object by name, and 16 as 16.0.
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

/// Where a parameter moves for a reason. The gradient of a bias under a softmax
/// (of the keys, of an answer's logits) is 0 but for rounding, and AdamW
/// divides it by itself: where such a bias goes is chance.
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
    loaded = load(GetParam());
  }
  TensorMap golden;
  AnyModel loaded;
};

TEST_P(GoldenModel, HasNothingMissingAndNothingLeft) {
  const LoadingReport& report = loaded.model->loading_report();

  EXPECT_EQ(report.missing, std::vector<std::string>());
  EXPECT_EQ(report.unexpected, std::vector<std::string>());
  EXPECT_EQ(report.text(), "");
}

TEST_P(GoldenModel, ComputesWhatPythonDoes) {
  const TensorMap outputs = loaded.call(part(golden, "input"));

  const TensorMap expected = part(golden, "output");
  EXPECT_FALSE(expected.empty());
  for (const auto& [name, tensor] : expected) {
    if (name.find('.') == std::string::npos) {
      expect_close(name, outputs.at(name), tensor);
    }
  }
}

TEST_P(GoldenModel, HasPythonsStatesOfEachLayer) {
  TensorMap expected = part(golden, "output");
  std::erase_if(expected, [](const auto& entry) {
    return entry.first.find('.') == std::string::npos;
  });
  // Python was asked for them where the name says so.
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

TEST_P(GoldenModel, HasPythonsGradients) {
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

TEST_P(GoldenModel, TrainsAsInPython) {
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

TEST_P(GoldenModel, ComputesTheSameStepByStep) {
  const AnyModel eager = load(GetParam(), {.attn_implementation = "eager"});

  const TensorMap outputs = eager.call(part(golden, "input"));

  // A row that sees no token at all is a matter of taste: fused attention
  // returns 0 for it, the plain one a mean. Only real tokens are compared.
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

TEST_P(GoldenModel, IsSavedAsPythonSavesIt) {
  const std::string python = golden_folder() + GetParam().name;
  const std::string ours = accelerate::fresh_folder();

  loaded.model->save_pretrained(ours);

  const accelerate::SafetensorsFile expected(python + "/model.safetensors");
  const accelerate::SafetensorsFile actual(ours + "/model.safetensors");
  EXPECT_EQ(actual.metadata(), expected.metadata());
  EXPECT_EQ(actual.names().size(), expected.names().size());
  for (const std::string& name : expected.names()) {
    ASSERT_TRUE(actual.contains(name)) << name;
    EXPECT_TRUE(actual.tensor(name).equal(expected.tensor(name))) << name;
  }
  const auto config = [](const std::string& folder) {
    return Json::parse(accelerate::read_file(folder + "/config.json", 1 << 20));
  };
  const Json written = config(ours);
  const Json wanted = config(python);
  for (const auto& [key, value] : wanted.as_object()) {
    ASSERT_TRUE(written.contains(key)) << key;
    EXPECT_EQ(sorted(written.at(key)), sorted(value)) << key;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models,
    GoldenModel,
    testing::ValuesIn(golden_cases()),
    [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace transformers
