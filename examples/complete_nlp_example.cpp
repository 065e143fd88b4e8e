// SPDX-License-Identifier: Apache-2.0
// nlp_example.cpp with more features: checkpoints and resuming, gradient
// accumulation, gradient clipping, early stopping, profiling, worker threads,
// gradient checkpointing, trackers, and a clean exit on preemption.
//
//     cd build/bin
//     program=examples/complete_nlp_example
//     launch="./accelerate launch --cpu --num_processes 2"
//     $launch $program --project_dir run --checkpointing_steps 100
//     $launch $program --project_dir run --resume_from_checkpoint latest
//
// Code that is not in nlp_example.cpp is in marked blocks.
#include <cerrno>
#include <cstdlib>
#include <filesystem>
// New code
#include <functional>
// End of new code
#include <iostream>
#include <map>
// New code
#include <memory>
// End of new code
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
  // New code
  std::int64_t checkpointing_steps = 0;      // 0: saves after each epoch.
  std::int64_t checkpoints_total_limit = 3;  // Removes the oldest.
  std::string resume_from_checkpoint = {};   // A folder, or `latest`.
  std::int64_t gradient_accumulation_steps = 1;
  double max_grad_norm = 1;
  double stop_at_accuracy = 1;
  std::int64_t patience = 3;  // Epochs without improvement before stopping.
  std::int64_t num_workers = 0;
  std::string profile = {};  // Writes traces here.
  bool gradient_checkpointing = false;
  // End of new code
};
// New code

// The best result so far. It is part of the checkpoint, so that a resumed run
// stops in the same epoch as an uninterrupted run.
struct BestResult {
  double accuracy = 0;
  std::int64_t epochs_since = 0;

  accelerate::Json state_dict() const {
    return accelerate::Json::object(
        {{"accuracy", accuracy}, {"epochs_since", epochs_since}});
  }
  void load_state_dict(const accelerate::Json& state) {
    accuracy = state.at("accuracy").as_double();
    epochs_since = state.at("epochs_since").as_integer();
  }
  void add(double new_accuracy) {
    const bool is_better = new_accuracy > accuracy;
    epochs_since = is_better ? 0 : epochs_since + 1;
    accuracy = is_better ? new_accuracy : accuracy;
  }
};
// End of new code

[[noreturn]] void print_usage_and_exit(int code) {
  std::ostream& out = code == 0 ? std::cout : std::cerr;
  out << "usage: " << program_invocation_short_name
      << " [--option value]...\n"
         "options: --checkpoint --data --output_dir "
         "--num_epochs --batch_size --learning_rate --lr_scheduler "
         "--seed --mixed_precision --project_dir --with_tracking\n";
  // New code
  out << "more options: --checkpointing_steps "
         "--checkpoints_total_limit --resume_from_checkpoint "
         "--gradient_accumulation_steps --max_grad_norm "
         "--stop_at_accuracy --patience --num_workers --profile "
         "--gradient_checkpointing\n";
  // End of new code
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
  // New code
  const auto take_number = [&](const char* name, auto& field) {
    if (const auto value = take(name)) {
      field = static_cast<std::decay_t<decltype(field)>>(std::stod(*value));
    }
  };
  take_number("checkpointing_steps", options.checkpointing_steps);
  take_number("checkpoints_total_limit", options.checkpoints_total_limit);
  options.resume_from_checkpoint = take("resume_from_checkpoint").value_or("");
  take_number(
      "gradient_accumulation_steps", options.gradient_accumulation_steps);
  take_number("max_grad_norm", options.max_grad_norm);
  take_number("stop_at_accuracy", options.stop_at_accuracy);
  take_number("patience", options.patience);
  take_number("num_workers", options.num_workers);
  options.profile = take("profile").value_or("");
  options.gradient_checkpointing =
      take("gradient_checkpointing").value_or("no") == "yes";
  // End of new code
  if (!arguments.empty()) {
    print_usage_and_exit(2);
  }
  return options;
}

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

// New code
int exit_code = 0;

// End of new code
// The folders of the run.
accelerate::ProjectConfiguration project(const TrainingOptions& options) {
  return {
      // New code
      .project_dir = options.project_dir,  // For checkpoints.
      // End of new code
      .logging_dir = options.project_dir.empty() ? "logs" : options.project_dir,
      // New code
      .automatic_checkpoint_naming = !options.project_dir.empty(),
      .total_limit = options.project_dir.empty()
                         ? std::nullopt
                         : std::optional(options.checkpoints_total_limit),
      // End of new code
  };
}

void train(const TrainingOptions& options) {
  // `batch_size` is the total over all processes, so the number of processes
  // does not change the result.
  accelerate::Accelerator accelerator({
      .split_batches = true,
      .mixed_precision = options.mixed_precision,
      // New code
      .gradient_accumulation_steps = options.gradient_accumulation_steps,
      // End of new code
      .project_config = project(options),
      .log_with = options.log_with,
  });
  accelerate::set_seed(options.seed);

  const bool from_scratch = options.checkpoint.empty();
  const auto tokenizer = transformers::AutoTokenizer::from_pretrained(
      from_scratch ? options.data : options.checkpoint);
  // Pads each batch to its longest row.
  const transformers::DataCollatorWithPadding collator(tokenizer);
  accelerate::DataLoader train_dataloader(
      tokenized(tokenizer, options.data + "/train.csv"),
      {
          .batch_size = options.batch_size,
          .shuffle = true,
          // New code
          .num_workers = options.num_workers,
          // End of new code
          .seed = options.seed,
      },
      collator);
  accelerate::DataLoader eval_dataloader(
      tokenized(tokenizer, options.data + "/validation.csv"),
      {.batch_size = options.batch_size},
      collator);

  auto model = from_scratch ? Classifier::from_config(small_bert(tokenizer))
                            : Classifier::from_pretrained(
                                  options.checkpoint, {.num_labels = 2});
  // New code
  if (options.gradient_checkpointing) {
    model->gradient_checkpointing_enable();
  }
  // End of new code
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
  // New code
  BestResult best;
  accelerator.register_for_checkpointing(best);

  std::int64_t first_epoch = 0;
  if (!options.resume_from_checkpoint.empty()) {
    const auto report =
        options.resume_from_checkpoint == "latest"
            ? accelerator.load_state({.required = false})
            : accelerator.load_state(options.resume_from_checkpoint);
    first_epoch = report.epoch;
    if (report.path.empty()) {
      accelerator.print("no checkpoint yet: starting from the beginning");
    } else {
      accelerator.print(
          "resumed at step ", report.step, " in epoch ", report.epoch);
    }
  }
  // Saves in the middle of an epoch, and on SIGTERM or SIGUSR1.
  std::function<bool()> save = [] { return false; };
  if (!options.project_dir.empty()) {
    save = options.checkpointing_steps > 0
               ? accelerator.save_every({.steps = options.checkpointing_steps})
               : accelerator.save_every({.minutes = 10});
  }
  std::unique_ptr<accelerate::Profiler> profiler;
  if (!options.profile.empty()) {
    profiler = accelerator.profile(
        {.schedule_option =
             accelerate::ProfileSchedule{
                 .wait = 1, .warmup = 1, .active = 2, .repeat = 1},
         .output_trace_dir = options.profile});
  }
  bool stopped = false;
  // End of new code

  accelerate::tqdm progress_bar(options.num_epochs * train_dataloader.size());
  // New code
  progress_bar.update(accelerator.step() * options.gradient_accumulation_steps);
  // End of new code
  for (int epoch = 0; epoch < options.num_epochs; ++epoch) {
    // New code
    if (epoch < first_epoch || stopped) {
      continue;
    }
    // End of new code
    model->train();
    for (auto& batch : train_dataloader) {
      // New code
      const auto micro_step = accelerator.accumulate();
      // End of new code
      auto outputs = model(batch);
      accelerator.backward(outputs.loss);
      // New code
      if (accelerator.sync_gradients()) {
        accelerator.clip_grad_norm_(model->parameters(), options.max_grad_norm);
      }
      // End of new code
      optimizer.step();
      lr_scheduler.step();
      optimizer.zero_grad();
      progress_bar.update(1);
      accelerator.log(
          {{"train/loss", outputs.loss},
           {"lr", lr_scheduler.get_last_lr().front()}},
          {.step = progress_bar.n()});
      // New code
      if (progress_bar.n() % 10 == 0) {  // item() waits for the device.
        progress_bar.set_postfix(
            "loss=" + std::to_string(outputs.loss.item<double>()));
      }
      if (profiler) {
        profiler->step();
      }
      // region: preemption
      if (save() && accelerator.checkpoint_requested()) {
        stopped = true;
        exit_code = accelerate::kPreemptedExitCode;
        break;
      }
      // endregion
      // End of new code
    }

    // New code
    if (stopped) {
      break;
    }
    // End of new code
    const auto [accuracy, f1] = evaluate(accelerator, model, eval_dataloader);
    accelerator.print("epoch ", epoch, ": accuracy ", accuracy, ", F1 ", f1);
    accelerator.log(
        {{"eval", {{"accuracy", accuracy}, {"f1", f1}}}},
        {.step = progress_bar.n()});
    // New code
    best.add(accuracy);
    // All processes have the same accuracy here, but they must leave the loop
    // together. The trigger ensures this even if only one process decides to
    // stop.
    if (best.accuracy >= options.stop_at_accuracy ||
        best.epochs_since >= options.patience) {
      accelerator.set_trigger();
    }
    if (accelerator.check_trigger()) {
      accelerator.print("stopped early at accuracy ", best.accuracy);
      stopped = true;
    }
    if (!options.project_dir.empty() && options.checkpointing_steps == 0) {
      accelerator.save_state({.blocking = false});
    }
    // End of new code
  }

  if (!options.output_dir.empty() && accelerator.is_main_process()) {
    model->save_pretrained(options.output_dir);
    tokenizer.save_pretrained(options.output_dir);
  }
  // New code
  profiler.reset();
  accelerator.end_training();  // Waits until the last checkpoint is written.
  // End of new code
}

}  // namespace

int main(int argc, char** argv) {
  train(parse(argc, argv));
  // New code
  return exit_code;
  // End of new code
}
