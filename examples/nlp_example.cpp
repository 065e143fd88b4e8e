// SPDX-License-Identifier: Apache-2.0
// Fine-tunes a sentence-pair classifier (do two sentences mean the same thing?)
// and evaluates it after each epoch.
//
//     cd build/bin
//     ./accelerate launch --cpu --num_processes 2 examples/nlp_example
//     ./accelerate launch examples/nlp_example --checkpoint bert-base-cased
//
// Without a checkpoint it trains a small BERT from scratch, which learns the
// bundled pairs in a few epochs. complete_nlp_example.cpp is this program with
// checkpoints, early stopping and other features.
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <accelerate/accelerate.h>
#include <accelerate/metrics.h>
#include <transformers/transformers.h>

#include <ATen/core/grad_mode.h>

// The build defines this path; `accelerate launch <file>.cpp` does not.
#ifndef ACCELERATE_EXAMPLE_DATA
#define ACCELERATE_EXAMPLE_DATA "examples/data"
#endif

namespace {

using transformers::Dataset;
using transformers::Row;
using transformers::Tokenizer;
using Classifier = transformers::AutoModelForSequenceClassification;

struct TrainingOptions {
  std::string checkpoint = {};  // A folder or a name on the Hub.
  std::string data = ACCELERATE_EXAMPLE_DATA;
  std::string output_dir = {};
  int num_epochs = 4;
  std::int64_t batch_size = 24;  // Over all processes.
  double learning_rate = 1e-3;
  std::string lr_scheduler = "linear";
  std::uint64_t seed = 42;
  std::optional<accelerate::Precision> mixed_precision = std::nullopt;
  std::string project_dir = {};  // For logs; by default, the folder `logs`.
  std::vector<accelerate::LogWith> log_with = {};
};

[[noreturn]] void print_usage_and_exit(int code) {
  std::ostream& out = code == 0 ? std::cout : std::cerr;
  out << "usage: " << program_invocation_short_name
      << " [--option value]...\n"
         "options: --checkpoint --data --output_dir "
         "--num_epochs --batch_size --learning_rate --lr_scheduler "
         "--seed --mixed_precision --project_dir --with_tracking\n";
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
  const auto take = [&](const char* name) {
    const auto found = arguments.extract(name);
    return found ? std::optional(found.mapped()) : std::nullopt;
  };
  TrainingOptions options;
  options.checkpoint = take("checkpoint").value_or("");
  options.data = take("data").value_or(options.data);
  options.output_dir = take("output_dir").value_or("");
  options.num_epochs = std::stoi(take("num_epochs").value_or("4"));
  options.batch_size = std::stoll(take("batch_size").value_or("24"));
  options.learning_rate = std::stod(take("learning_rate").value_or("1e-3"));
  options.lr_scheduler = take("lr_scheduler").value_or("linear");
  options.seed = std::stoull(take("seed").value_or("42"));
  if (const auto name = take("mixed_precision")) {
    options.mixed_precision = accelerate::parse_precision(*name);
  }
  options.project_dir = take("project_dir").value_or("");
  if (take("with_tracking")) {
    options.log_with = {"all"};
  }
  if (!arguments.empty()) {
    print_usage_and_exit(2);
  }
  return options;
}

// region: config
// A small BERT with the vocabulary of the data.
transformers::Config small_bert(const Tokenizer& tokenizer) {
  return transformers::Config::from_json(accelerate::Json::object(
      {{"model_type", "bert"},
       {"vocab_size", tokenizer.size()},
       {"hidden_size", 128},
       {"num_hidden_layers", 2},
       {"num_attention_heads", 4},
       {"intermediate_size", 512},
       {"max_position_embeddings", 128},
       // A model this small learns faster with larger weights and no dropout.
       {"initializer_range", 0.05},
       {"hidden_dropout_prob", 0.0},
       {"attention_probs_dropout_prob", 0.0}}));
}
// endregion

// region: tokenized
Dataset tokenized(const Tokenizer& tokenizer, const std::string& file) {
  return transformers::load_dataset("csv", file)
      .map(
          [&](const Row& row) {
            const auto encoded = tokenizer(
                row.text("sentence1"),
                row.text("sentence2"),
                {.truncation = true, .max_length = 128});
            Row result{{"input_ids", encoded.input_ids}};
            if (!encoded.token_type_ids.empty()) {
              result.set("token_type_ids", encoded.token_type_ids);
            }
            return result;
          },
          {.remove_columns = {"sentence1", "sentence2"}});
}
// endregion

struct Scores {
  double accuracy = 0;
  double f1 = 0;
};

// Evaluates on all processes, without the samples that pad the last batch.
Scores evaluate(
    accelerate::Accelerator& accelerator, Classifier& model, auto& dataloader) {
  model->eval();
  accelerate::Accuracy accuracy;
  accelerate::F1 f1;
  const at::NoGradGuard no_grad;
  for (auto& batch : dataloader) {
    const auto predictions = model(batch).logits.argmax(-1);
    const auto all = accelerator.gather_for_metrics(
        std::vector{predictions, batch["labels"]});
    accuracy.add_batch(all[0], all[1]);
    f1.add_batch(all[0], all[1]);
  }
  return {.accuracy = accuracy.compute(), .f1 = f1.compute().f1};
}

// The folders of the run.
accelerate::ProjectConfiguration project(const TrainingOptions& options) {
  return {
      .logging_dir = options.project_dir.empty() ? "logs" : options.project_dir,
  };
}

void train(const TrainingOptions& options) {
  // `batch_size` is the total over all processes, so the number of processes
  // does not change the result.
  accelerate::Accelerator accelerator({
      .split_batches = true,
      .mixed_precision = options.mixed_precision,
      .project_config = project(options),
      .log_with = options.log_with,
  });
  accelerate::set_seed(options.seed);

  const bool from_scratch = options.checkpoint.empty();
  const auto tokenizer = transformers::AutoTokenizer::from_pretrained(
      from_scratch ? options.data : options.checkpoint);
  // region: loader
  // Pads each batch to its longest row.
  const transformers::DataCollatorWithPadding collator(tokenizer);
  accelerate::DataLoader train_dataloader(
      tokenized(tokenizer, options.data + "/train.csv"),
      {
          .batch_size = options.batch_size,
          .shuffle = true,
          .seed = options.seed,
      },
      collator);
  // endregion
  accelerate::DataLoader eval_dataloader(
      tokenized(tokenizer, options.data + "/validation.csv"),
      {.batch_size = options.batch_size},
      collator);

  // region: model
  auto model = from_scratch ? Classifier::from_config(small_bert(tokenizer))
                            : Classifier::from_pretrained(
                                  options.checkpoint, {.num_labels = 2});
  // endregion
  transformers::AdamW optimizer(model->parameters(), options.learning_rate);
  auto lr_scheduler = transformers::get_scheduler(
      options.lr_scheduler,
      optimizer,
      {.num_warmup_steps = 100,
       .num_training_steps = options.num_epochs * train_dataloader.size()});

  accelerator.prepare(
      model, optimizer, train_dataloader, eval_dataloader, lr_scheduler);
  accelerator.init_trackers(
      program_invocation_short_name,
      accelerate::Json::object(
          {{"num_epochs", options.num_epochs},
           {"batch_size", options.batch_size},
           {"learning_rate", options.learning_rate},
           {"lr_scheduler", options.lr_scheduler},
           {"seed", options.seed}}));

  accelerate::tqdm progress_bar(options.num_epochs * train_dataloader.size());
  for (int epoch = 0; epoch < options.num_epochs; ++epoch) {
    model->train();
    for (auto& batch : train_dataloader) {
      auto outputs = model(batch);
      accelerator.backward(outputs.loss);
      optimizer.step();
      lr_scheduler.step();
      optimizer.zero_grad();
      progress_bar.update(1);
      accelerator.log(
          {{"train/loss", outputs.loss},
           {"lr", lr_scheduler.get_last_lr().front()}},
          {.step = progress_bar.n()});
    }

    const auto [accuracy, f1] = evaluate(accelerator, model, eval_dataloader);
    accelerator.print("epoch ", epoch, ": accuracy ", accuracy, ", F1 ", f1);
    accelerator.log(
        {{"eval", {{"accuracy", accuracy}, {"f1", f1}}}},
        {.step = progress_bar.n()});
  }

  // region: save
  if (!options.output_dir.empty() && accelerator.is_main_process()) {
    model->save_pretrained(options.output_dir);
    tokenizer.save_pretrained(options.output_dir);
  }
  // endregion
}

}  // namespace

int main(int argc, char** argv) {
  train(parse(argc, argv));
}
