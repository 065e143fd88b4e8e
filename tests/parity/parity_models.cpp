// SPDX-License-Identifier: Apache-2.0
// The C++ part of `make parity`.
//
//     parity_models export <folder>     saves models of every kind and their
//                                       outputs, for Python to load
//     parity_models train <folder>      trains models and saves each with
//                                       `save_state` and with `save_model`
//     parity_models shard <folder>      the same on several processes, which
//                                       write one sharded state together
//     parity_models tokenizers <folders> <folder>  loads tokenizers and saves
//                                       them again, for Python to load
//     parity_models odd <folder>        runs the cases of check_odd_folders.py
//     parity_models embed <model> <sentences> <file>  compares ids and
//                                       embeddings with a file from Python
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <torch/types.h>
#include <torch/utils.h>

#include "accelerate/accelerator.h"
#include "accelerate/error.h"
#include "accelerate/optim.h"
#include "accelerate/safetensors.h"
#include "transformers/transformers.h"

namespace {

namespace fs = std::filesystem;
using accelerate::TensorMap;
using namespace transformers;

constexpr double kTolerance = 1e-5;

TensorMap make_batch(const std::string& model_type) {
  TensorMap batch = {
      {"input_ids", at::randint(3, 40, {3, 9}, at::kLong)},
      {"attention_mask", at::ones({3, 9}, at::kLong)}};
  batch["attention_mask"].index_put_(
      {1, at::indexing::Slice(5, at::indexing::None)}, 0);
  batch["input_ids"].index_put_(
      {1, at::indexing::Slice(5, at::indexing::None)}, 0);
  if (model_type == "bert") {
    batch["token_type_ids"] = at::randint(0, 2, {3, 9}, at::kLong);
  }
  return batch;
}

template <typename Output>
at::Tensor main_output(const Output& output) {
  if constexpr (requires { output.start_logits; }) {
    return output.start_logits;
  } else if constexpr (requires { output.last_hidden_state; }) {
    return output.last_hidden_state;
  } else {
    return output.logits;
  }
}

template <typename Model>
void write_golden(
    const Model& model, const TensorMap& batch, const fs::path& folder) {
  const at::NoGradGuard no_grad;
  TensorMap golden;
  golden["output"] = main_output(model(batch));
  for (const auto& [name, tensor] : batch) {
    golden["input." + name] = tensor;
  }
  accelerate::save_safetensors(golden, folder / "golden.safetensors");
}

template <typename Auto>
void write(const Config& config, const std::string& head, const fs::path& out) {
  const auto model = Auto::from_config(config);
  model->eval();
  {
    at::NoGradGuard no_grad;
    for (const auto& parameter : model->parameters()) {
      parameter.add_(at::randn_like(parameter) * 0.1);
    }
  }
  const std::string type(config.model_type());
  const fs::path folder = out / (type + "_" + head);
  model->save_pretrained(folder, {.max_shard_size = 3000});
  write_golden(model, make_batch(type), folder);
}

// Runs two steps, so that no parameter has its initial value.
template <typename Model>
void take_steps(
    accelerate::Accelerator& accelerator,
    Model& model,
    accelerate::AdamW& optimizer,
    const TensorMap& batch) {
  accelerator.prepare(model, optimizer);
  for (int step = 0; step < 2; ++step) {
    accelerator.backward(main_output(model(batch)).pow(2).mean());
    optimizer.step();
    optimizer.zero_grad();
  }
  model->eval();
}

template <typename Auto>
void train(const Config& config, const std::string& head, const fs::path& out) {
  const std::string type(config.model_type());
  const std::string name = type + "_" + head;
  auto model = Auto::from_config(config);
  accelerate::AdamW optimizer(model->parameters(), 0.01);
  accelerate::Accelerator accelerator;
  const TensorMap batch = make_batch(type);
  take_steps(accelerator, model, optimizer, batch);
  accelerator.save_state(out / "state" / name);
  accelerator.save_model(
      model, out / "model" / name, {.max_shard_size = "3KB"});
  // Python needs config.json, which is not part of a checkpoint.
  model->save_pretrained(out / "config" / name);
  for (const char* kind : {"state", "model"}) {
    fs::copy_file(
        out / "config" / name / "config.json",
        out / kind / name / "config.json");
    write_golden(model, batch, out / kind / name);
  }
}

// Saves a folder to which every process writes one shard.
template <typename Auto>
void save_sharded(
    const Config& config, const std::string& head, const fs::path& out) {
  const std::string type(config.model_type());
  auto model = Auto::from_config(config);
  accelerate::AdamW optimizer(model->parameters(), 0.01);
  accelerate::Accelerator accelerator;
  const TensorMap batch = make_batch(type);
  take_steps(accelerator, model, optimizer, batch);
  const fs::path folder = accelerator.save_state(out / (type + "_" + head));
  if (!accelerator.is_main_process()) {
    return;
  }
  if (!fs::exists(folder / "model.safetensors.index.json")) {
    throw accelerate::StateError(folder.string() + " was not sharded");
  }
  model->save_pretrained(out / "config");
  fs::copy_file(out / "config" / "config.json", folder / "config.json");
  fs::remove_all(out / "config");
  write_golden(model, batch, folder);
}

// Runs under `accelerate launch`. The models are large enough for one shard per
// process on three processes.
int run_shard(const fs::path& out) {
  torch::manual_seed(7);
  save_sharded<AutoModelForSequenceClassification>(
      BertConfig{
          .vocab_size = 24000,
          .hidden_size = 256,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .intermediate_size = 512,
          .max_position_embeddings = 16},
      "sequence_classification",
      out);
  save_sharded<AutoModelForCausalLM>(
      GPT2Config{
          .vocab_size = 24000,
          .n_positions = 16,
          .n_embd = 256,
          .n_layer = 2,
          .n_head = 4,
          .pad_token_id = 0},
      "causal_lm",
      out);
  return EXIT_SUCCESS;
}

void write_all(Config config, const fs::path& out) {
  write<AutoModel>(config, "base", out);
  write<AutoModelForQuestionAnswering>(config, "question_answering", out);
  if (config.model_type() == "gpt2" || config.model_type() == "llama") {
    write<AutoModelForCausalLM>(config, "causal_lm", out);
  } else {
    write<AutoModelForMaskedLM>(config, "masked_lm", out);
  }
  config.common().num_labels = 3;
  config.common().id2label = {{0, "red"}, {1, "green"}, {2, "blue"}};
  write<AutoModelForSequenceClassification>(
      config, "sequence_classification", out);
  write<AutoModelForTokenClassification>(config, "token_classification", out);
}

int run_export(const fs::path& out) {
  torch::manual_seed(5);
  write_all(
      BertConfig{
          .vocab_size = 40,
          .hidden_size = 8,
          .num_hidden_layers = 2,
          .num_attention_heads = 2,
          .intermediate_size = 12,
          .max_position_embeddings = 16},
      out);
  write_all(
      RobertaConfig{
          .vocab_size = 40,
          .hidden_size = 8,
          .num_hidden_layers = 2,
          .num_attention_heads = 2,
          .intermediate_size = 12,
          .max_position_embeddings = 16},
      out);
  write_all(
      DistilBertConfig{
          .vocab_size = 40,
          .max_position_embeddings = 16,
          .n_layers = 2,
          .n_heads = 2,
          .dim = 8,
          .hidden_dim = 12},
      out);
  write_all(
      GPT2Config{
          .vocab_size = 40,
          .n_positions = 16,
          .n_embd = 8,
          .n_layer = 2,
          .n_head = 2,
          .pad_token_id = 0},
      out);
  // Sets one field after another, because g++ 12 reports optionals in such a
  // large temporary object as uninitialized.
  LlamaConfig llama;
  llama.vocab_size = 40;
  llama.hidden_size = 8;
  llama.intermediate_size = 12;
  llama.num_hidden_layers = 2;
  llama.num_attention_heads = 2;
  llama.num_key_value_heads = 1;
  llama.max_position_embeddings = 16;
  llama.pad_token_id = 0;
  llama.rope_parameters.rope_type = "yarn";
  llama.rope_parameters.factor = 4.0;
  llama.rope_parameters.original_max_position_embeddings = 4;
  write_all(llama, out);
  return EXIT_SUCCESS;
}

int run_train(const fs::path& out) {
  torch::manual_seed(6);
  train<AutoModelForSequenceClassification>(
      BertConfig{
          .vocab_size = 40,
          .hidden_size = 8,
          .num_hidden_layers = 2,
          .num_attention_heads = 2,
          .intermediate_size = 12,
          .max_position_embeddings = 16},
      "sequence_classification",
      out);
  // The head shares its weights with the embedding: one tensor with two names.
  train<AutoModelForCausalLM>(
      GPT2Config{
          .vocab_size = 40,
          .n_positions = 16,
          .n_embd = 8,
          .n_layer = 2,
          .n_head = 2,
          .pad_token_id = 0},
      "causal_lm",
      out);
  return EXIT_SUCCESS;
}

int run_tokenizers(const fs::path& folders, const fs::path& out) {
  for (const auto& entry : fs::directory_iterator(folders)) {
    AutoTokenizer::from_pretrained(entry.path().string())
        .save_pretrained(out / entry.path().filename());
  }
  return EXIT_SUCCESS;
}

template <typename Auto>
TensorMap run_case(const fs::path& folder, const std::string& attention) {
  const auto model = Auto::from_pretrained(
      folder.string(), {.attn_implementation = attention, .report = false});
  const auto output =
      model(accelerate::load_safetensors(folder / "batch.safetensors"));
  TensorMap result = {{"output", main_output(output).detach().to(at::kFloat)}};
  if (output.loss.defined()) {
    output.loss.backward();
    result["loss"] = output.loss.detach().to(at::kFloat);
    for (const auto& [name, parameter] : model->named_parameters()) {
      if (parameter.grad().defined()) {
        result["grad." + name] = parameter.grad().to(at::kFloat);
      }
    }
  }
  return result;
}

TensorMap run_case(const fs::path& folder) {
  std::ifstream in(folder / "case.txt");
  std::string kind;
  std::string attention;
  in >> kind >> attention;
  if (kind == "causal") {
    return run_case<AutoModelForCausalLM>(folder, attention);
  }
  if (kind == "masked") {
    return run_case<AutoModelForMaskedLM>(folder, attention);
  }
  if (kind == "row") {
    return run_case<AutoModelForSequenceClassification>(folder, attention);
  }
  if (kind == "token") {
    return run_case<AutoModelForTokenClassification>(folder, attention);
  }
  return run_case<AutoModelForQuestionAnswering>(folder, attention);
}

// Writes the results of each case, or the error. Only exceptions derived from
// `Error` are results; any other exception ends the program.
int run_odd(const fs::path& folders) {
  for (const auto& entry : fs::directory_iterator(folders)) {
    try {
      accelerate::save_safetensors(
          run_case(entry.path()), entry.path() / "result.safetensors");
    } catch (const accelerate::Error& error) {
      std::ofstream(entry.path() / "error.txt") << error.what() << "\n";
    }
  }
  return EXIT_SUCCESS;
}

std::vector<std::string> read_sentences(const fs::path& file) {
  std::ifstream in(file);
  std::vector<std::string> sentences;
  for (std::string line; std::getline(in, line);) {
    sentences.push_back(line);
  }
  return sentences;
}

int run_embed(
    const std::string& folder,
    const fs::path& sentences,
    const fs::path& file) {
  const TensorMap golden = accelerate::load_safetensors(file);
  const TensorMap encoded = to_tensors(AutoTokenizer::from_pretrained(folder)(
      read_sentences(sentences), {.padding = true, .truncation = true}));
  for (const char* name : {"input_ids", "attention_mask"}) {
    if (!encoded.at(name).equal(golden.at(name))) {
      std::cerr << "error: `" << name
                << "` differs from Hugging Face Transformers\n";
      return EXIT_FAILURE;
    }
  }
  const auto model = AutoModel::from_pretrained(folder);
  const TensorMap batch = {
      {"input_ids", golden.at("input_ids")},
      {"attention_mask", golden.at("attention_mask")}};
  at::NoGradGuard no_grad;
  const auto hidden_BTD = model(batch).last_hidden_state;
  const auto mask_BT1 =
      golden.at("attention_mask").unsqueeze(-1).to(at::kFloat);
  const auto mean_BD =
      (hidden_BTD * mask_BT1).sum(1) / mask_BT1.sum(1).clamp_min(1e-9);
  const auto embeddings_BD = mean_BD / mean_BD.norm(2, 1, true);
  const double error =
      (embeddings_BD - golden.at("embeddings")).abs().max().item<double>();
  std::cout << embeddings_BD.size(0) << " sentences, largest difference "
            << error << "\n";
  return error <= kTolerance ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  try {
    if (command == "export" && argc == 3) {
      return run_export(argv[2]);
    }
    if (command == "train" && argc == 3) {
      return run_train(argv[2]);
    }
    if (command == "shard" && argc == 3) {
      return run_shard(argv[2]);
    }
    if (command == "tokenizers" && argc == 4) {
      return run_tokenizers(argv[2], argv[3]);
    }
    if (command == "odd" && argc == 3) {
      return run_odd(argv[2]);
    }
    if (command == "embed" && argc == 5) {
      return run_embed(argv[2], argv[3], argv[4]);
    }
  } catch (const accelerate::Error& error) {
    std::cerr << "error: " << error.what() << "\n";
    return error.exit_code();
  }
  std::cerr << "usage: parity_models {export <folder> | train <folder> | "
               "shard <folder> | tokenizers <folders> <folder> | "
               "odd <folder> | "
               "embed <model> <sentences> <file>}\n";
  return 2;
}
