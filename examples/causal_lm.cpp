// SPDX-License-Identifier: Apache-2.0
// Trains a small GPT-2 from scratch on text, then generates a sentence.
//
//     cd build/bin
//     ./accelerate launch --cpu --num_processes 2 examples/causal_lm
//     ./accelerate launch examples/causal_lm
//         --train_file book.txt --tokenizer gpt2 --block_size 256
//
// Without a file, the program trains on the sentences in examples/data/, which
// takes half a minute.
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <accelerate/accelerate.h>
#include <accelerate/metrics.h>
#include <transformers/transformers.h>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>

// The build defines this path; `accelerate launch <file>.cpp` does not.
#ifndef ACCELERATE_EXAMPLE_DATA
#define ACCELERATE_EXAMPLE_DATA "examples/data"
#endif

namespace {

using transformers::Dataset;
using transformers::Row;
using transformers::Tokenizer;
using Gpt2 = transformers::AutoModelForCausalLM;

struct TrainingOptions {
  std::string train_file = {};  // Plain text. Empty: the bundled sentences.
  std::string tokenizer = ACCELERATE_EXAMPLE_DATA;
  std::string output_dir = {};
  std::string prompt = "A doctor never";
  int num_epochs = 3;
  std::int64_t batch_size = 16;  // Over all processes.
  std::int64_t block_size = 64;
  double learning_rate = 2e-3;
  std::uint64_t seed = 42;
  std::string project_dir = "logs";
  std::vector<accelerate::LogWith> log_with = {};
};

[[noreturn]] void print_usage_and_exit(int code) {
  std::ostream& out = code == 0 ? std::cout : std::cerr;
  out << "usage: causal_lm [--option value]...\n"
         "options: --train_file --tokenizer "
         "--output_dir --prompt --num_epochs --batch_size --block_size "
         "--learning_rate --seed --project_dir --with_tracking\n";
  std::exit(code);
}

TrainingOptions parse(int argc, char** argv) {
  std::map<std::string, std::string> arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const bool has_value = name != "--with_tracking";
    if (!name.starts_with("--") || (has_value && i + 1 == argc)) {
      print_usage_and_exit(name == "--help" ? 0 : 2);
    }
    arguments[name.substr(2)] = has_value ? argv[++i] : "";
  }
  const auto take = [&](const char* name, const std::string& default_value) {
    const auto found = arguments.extract(name);
    return found ? found.mapped() : default_value;
  };
  TrainingOptions options;
  options.train_file = take("train_file", "");
  options.tokenizer = take("tokenizer", options.tokenizer);
  options.output_dir = take("output_dir", "");
  options.prompt = take("prompt", options.prompt);
  options.num_epochs = std::stoi(take("num_epochs", "3"));
  options.batch_size = std::stoll(take("batch_size", "16"));
  options.block_size = std::stoll(take("block_size", "64"));
  options.learning_rate = std::stod(take("learning_rate", "2e-3"));
  options.seed = std::stoull(take("seed", "42"));
  options.project_dir = take("project_dir", "logs");
  if (arguments.erase("with_tracking") > 0) {
    options.log_with = {"all"};
  }
  if (!arguments.empty()) {
    print_usage_and_exit(2);
  }
  return options;
}

// region: text
// Each row is one sentence or line, in the column `text`.
Dataset load_text(const TrainingOptions& options) {
  if (!options.train_file.empty()) {
    return transformers::load_dataset("text", options.train_file);
  }
  return transformers::load_dataset(
             "csv", std::string(ACCELERATE_EXAMPLE_DATA) + "/train.csv")
      .rename_column("sentence1", "text")
      .remove_columns({"sentence2", "label"});
}
// endregion

// Concatenates all text and cuts it into blocks of equal length. Drops the
// remainder.
Dataset cut_into_blocks(
    const Dataset& text, const Tokenizer& tokenizer, std::int64_t block_size) {
  std::vector<Row> blocks;
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < text.size(); ++i) {
    const auto row_ids = tokenizer.encode(
        text[i].text("text") + "\n", {.add_special_tokens = false});
    ids.insert(ids.end(), row_ids.begin(), row_ids.end());
    while (static_cast<std::int64_t>(ids.size()) >= block_size) {
      const auto end = ids.begin() + block_size;
      blocks.push_back({{"input_ids", std::vector(ids.begin(), end)}});
      ids.erase(ids.begin(), end);
    }
  }
  return Dataset::from_rows(blocks);
}

transformers::Config small_gpt2(
    const Tokenizer& tokenizer, std::int64_t block_size) {
  return transformers::Config::from_json(accelerate::Json::object(
      {{"model_type", "gpt2"},
       {"vocab_size", tokenizer.size()},
       {"n_positions", block_size},
       {"n_embd", 128},
       {"n_layer", 2},
       {"n_head", 4},
       // Such a small model learns better without dropout.
       {"resid_pdrop", 0.0},
       {"embd_pdrop", 0.0},
       {"attn_pdrop", 0.0}}));
}

double evaluate(
    accelerate::Accelerator& accelerator, Gpt2& model, auto& dataloader) {
  model->eval();
  accelerate::Perplexity perplexity;
  const at::NoGradGuard no_grad;
  for (auto& batch : dataloader) {
    const auto outputs = model(batch);
    // Position i predicts token i + 1.
    const auto tokens = batch["labels"].size(1);
    const auto all = accelerator.gather_for_metrics(std::vector{
        outputs.logits.narrow(1, 0, tokens - 1),
        batch["labels"].narrow(1, 1, tokens - 1)});
    perplexity.add_batch(all[0], all[1]);
  }
  return perplexity.compute();
}

// region: generate
// Appends the most likely next token until the sentence ends.
std::string generate(
    Gpt2& model,
    const Tokenizer& tokenizer,
    const TrainingOptions& options,
    const c10::Device& device) {
  const at::NoGradGuard no_grad;
  auto ids = tokenizer.encode(options.prompt, {.add_special_tokens = false});
  const auto stop = tokenizer.token_to_id(".");
  while (static_cast<std::int64_t>(ids.size()) < options.block_size &&
         ids.back() != stop) {
    const auto inputs = at::tensor(ids).unsqueeze(0).to(device);
    const auto logits = model({{"input_ids", inputs}}).logits;
    ids.push_back(logits.select(1, -1).argmax(-1).item<std::int64_t>());
  }
  return tokenizer.decode(ids);
}
// endregion

void train(const TrainingOptions& options) {
  accelerate::Accelerator accelerator({
      .split_batches = true,
      .project_dir = options.project_dir,
      .log_with = options.log_with,
  });
  accelerator.init_trackers("causal_lm");
  accelerate::set_seed(options.seed);

  const auto tokenizer =
      transformers::AutoTokenizer::from_pretrained(options.tokenizer);
  // region: blocks
  const auto blocks =
      cut_into_blocks(load_text(options), tokenizer, options.block_size)
          .train_test_split({.test_size = 0.1, .seed = options.seed});
  // The labels are the tokens themselves.
  const transformers::DataCollatorForLanguageModeling collator(
      transformers::CollatorTokens{}, {.mlm = false});
  // endregion
  accelerate::DataLoader train_dataloader(
      blocks.train,
      {.batch_size = options.batch_size, .shuffle = true, .seed = options.seed},
      collator);
  accelerate::DataLoader eval_dataloader(
      blocks.test, {.batch_size = options.batch_size}, collator);

  auto model = Gpt2::from_config(small_gpt2(tokenizer, options.block_size));
  transformers::AdamW optimizer(model->parameters(), options.learning_rate);
  auto lr_scheduler = transformers::get_scheduler(
      "cosine",
      optimizer,
      {.num_warmup_steps = 20,
       .num_training_steps = options.num_epochs * train_dataloader.size()});

  accelerator.prepare(
      model, optimizer, train_dataloader, eval_dataloader, lr_scheduler);

  accelerator.print(
      "perplexity before: ", evaluate(accelerator, model, eval_dataloader));
  accelerate::tqdm progress_bar(options.num_epochs * train_dataloader.size());
  for (int epoch = 0; epoch < options.num_epochs; ++epoch) {
    model->train();
    for (auto& batch : train_dataloader) {
      const auto outputs = model(batch);
      accelerator.backward(outputs.loss);
      accelerator.clip_grad_norm_(model->parameters(), 1.0);
      optimizer.step();
      lr_scheduler.step();
      optimizer.zero_grad();
      progress_bar.update(1);
      accelerator.log(
          {{"train/loss", outputs.loss},
           {"lr", lr_scheduler.get_last_lr().front()}},
          {.step = progress_bar.n()});
    }
    const double perplexity = evaluate(accelerator, model, eval_dataloader);
    accelerator.print("epoch ", epoch, ": perplexity ", perplexity);
    accelerator.log(
        {{"eval/perplexity", perplexity}}, {.step = progress_bar.n()});
  }

  accelerator.print(generate(model, tokenizer, options, accelerator.device()));
  if (!options.output_dir.empty() && accelerator.is_main_process()) {
    model->save_pretrained(options.output_dir);
    tokenizer.save_pretrained(options.output_dir);
  }
}

}  // namespace

int main(int argc, char** argv) {
  train(parse(argc, argv));
}
