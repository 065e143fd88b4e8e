// SPDX-License-Identifier: Apache-2.0
// nlp_example.cpp with every feature there is: checkpoints and resuming,
// accumulation, clipping, early stopping, a profile, worker threads, gradient
// checkpointing, an orderly end when the machine is taken away.
//
//     cd build/bin
//     program=examples/complete_nlp_example
//     launch="./accelerate launch --cpu --num_processes 2"
//     $launch $program --project_dir run --checkpointing_steps 100
//     $launch $program --project_dir run --resume_from_checkpoint latest
//
// What is not in nlp_example.cpp stands between marks.
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

// The build says where the pairs lie; a source that is launched does not know.
#ifndef ACCELERATE_EXAMPLE_DATA
#define ACCELERATE_EXAMPLE_DATA "examples/data"
#endif

namespace {

using transformers::Dataset;
using transformers::Row;
using transformers::Tokenizer;
using Classifier = transformers::AutoModelForSequenceClassification;

struct Settings {
  std::string checkpoint = {};  // a folder or a name on the Hub
  std::string data = ACCELERATE_EXAMPLE_DATA;
  std::string output_dir = {};
  int num_epochs = 4;
  std::int64_t batch_size = 24;  // of all processes together
  double learning_rate = 1e-3;
  std::string lr_scheduler = "linear";
  std::uint64_t seed = 42;
  std::optional<accelerate::Precision> mixed_precision = std::nullopt;
  // New code
  std::string project_dir = {};              // where checkpoints go
  std::int64_t checkpointing_steps = 0;      // 0: after each epoch
  std::int64_t checkpoints_total_limit = 3;  // older ones go
  std::string resume_from_checkpoint = {};   // a folder, or `latest`
  std::int64_t gradient_accumulation_steps = 1;
  double max_grad_norm = 1;
  double stop_at_accuracy = 1;  // early
  std::int64_t patience = 3;    // epochs without a better result
  std::int64_t num_workers = 0;
  std::string profile = {};  // where traces go
  bool gradient_checkpointing = false;
  // End of new code
};
// New code

// The best result so far: part of the checkpoint, so that a resumed run stops
// where the other would have.
struct Best {
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
  void add(double next) {
    const bool is_better = next > accuracy;
    epochs_since = is_better ? 0 : epochs_since + 1;
    accuracy = is_better ? next : accuracy;
  }
};
// End of new code

[[noreturn]] void explain_and_exit() {
  std::cerr << "options, each with a value: --checkpoint --data --output_dir "
               "--num_epochs --batch_size --learning_rate --lr_scheduler "
               "--seed --mixed_precision\n";
  // New code
  std::cerr << "more of them: --project_dir --checkpointing_steps "
               "--checkpoints_total_limit --resume_from_checkpoint "
               "--gradient_accumulation_steps --max_grad_norm "
               "--stop_at_accuracy --patience --num_workers --profile "
               "--gradient_checkpointing\n";
  // End of new code
  std::exit(2);
}

Settings parse(int argc, char** argv) {
  std::map<std::string, std::string> given;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    if (!name.starts_with("--") || i + 1 == argc) {
      explain_and_exit();
    }
    given[name.substr(2)] = argv[i + 1];
  }
  const auto take = [&](const char* name) {
    const auto found = given.extract(name);
    return found ? std::optional(found.mapped()) : std::nullopt;
  };
  Settings settings;
  settings.checkpoint = take("checkpoint").value_or("");
  settings.data = take("data").value_or(settings.data);
  settings.output_dir = take("output_dir").value_or("");
  settings.num_epochs = std::stoi(take("num_epochs").value_or("4"));
  settings.batch_size = std::stoll(take("batch_size").value_or("24"));
  settings.learning_rate = std::stod(take("learning_rate").value_or("1e-3"));
  settings.lr_scheduler = take("lr_scheduler").value_or("linear");
  settings.seed = std::stoull(take("seed").value_or("42"));
  if (const auto name = take("mixed_precision")) {
    settings.mixed_precision = accelerate::parse_precision(*name);
  }
  // New code
  const auto take_number = [&](const char* name, auto& field) {
    if (const auto value = take(name)) {
      field = static_cast<std::decay_t<decltype(field)>>(std::stod(*value));
    }
  };
  settings.project_dir = take("project_dir").value_or("");
  take_number("checkpointing_steps", settings.checkpointing_steps);
  take_number("checkpoints_total_limit", settings.checkpoints_total_limit);
  settings.resume_from_checkpoint = take("resume_from_checkpoint").value_or("");
  take_number(
      "gradient_accumulation_steps", settings.gradient_accumulation_steps);
  take_number("max_grad_norm", settings.max_grad_norm);
  take_number("stop_at_accuracy", settings.stop_at_accuracy);
  take_number("patience", settings.patience);
  take_number("num_workers", settings.num_workers);
  settings.profile = take("profile").value_or("");
  settings.gradient_checkpointing =
      take("gradient_checkpointing").value_or("no") == "yes";
  // End of new code
  if (!given.empty()) {
    explain_and_exit();
  }
  return settings;
}

// A small BERT over the vocabulary of the data.
transformers::Config small_bert(const Tokenizer& tokenizer) {
  return transformers::Config::from_json(accelerate::Json::object(
      {{"model_type", "bert"},
       {"vocab_size", tokenizer.size()},
       {"hidden_size", 128},
       {"num_hidden_layers", 2},
       {"num_attention_heads", 4},
       {"intermediate_size", 512},
       {"max_position_embeddings", 128},
       // Small, so it needs larger weights and no dropout to learn fast.
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

// On all processes together; padding that evens out the last batch is left out.
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
int exit_code = 0;  // What the program ends with.

// End of new code
void train(const Settings& settings) {
  // A batch is that of all processes together: more of them change nothing
  // but the time.
  accelerate::Accelerator accelerator({
      .split_batches = true,
      .mixed_precision = settings.mixed_precision,
      // New code
      .gradient_accumulation_steps = settings.gradient_accumulation_steps,
      .project_config =
          settings.project_dir.empty()
              ? std::nullopt
              : std::optional(accelerate::ProjectConfiguration{
                    .project_dir = settings.project_dir,
                    .automatic_checkpoint_naming = true,
                    .total_limit = settings.checkpoints_total_limit}),
      // End of new code
  });
  accelerate::set_seed(settings.seed);

  const bool is_random = settings.checkpoint.empty();
  const auto tokenizer = transformers::AutoTokenizer::from_pretrained(
      is_random ? settings.data : settings.checkpoint);
  // Every batch is padded to its own longest row.
  const transformers::DataCollatorWithPadding collator(tokenizer);
  accelerate::DataLoader train_dataloader(
      tokenized(tokenizer, settings.data + "/train.csv"),
      {
          .batch_size = settings.batch_size,
          .shuffle = true,
          // New code
          .num_workers = settings.num_workers,
          // End of new code
          .seed = settings.seed,
      },
      collator);
  accelerate::DataLoader eval_dataloader(
      tokenized(tokenizer, settings.data + "/validation.csv"),
      {.batch_size = settings.batch_size},
      collator);

  auto model = is_random ? Classifier::from_config(small_bert(tokenizer))
                         : Classifier::from_pretrained(
                               settings.checkpoint, {.num_labels = 2});
  // New code
  if (settings.gradient_checkpointing) {
    model->gradient_checkpointing_enable();
  }
  // End of new code
  transformers::AdamW optimizer(model->parameters(), settings.learning_rate);
  auto lr_scheduler = transformers::get_scheduler(
      settings.lr_scheduler,
      optimizer,
      {.num_warmup_steps = 100,
       .num_training_steps = settings.num_epochs * train_dataloader.size()});

  accelerator.prepare(
      model, optimizer, train_dataloader, eval_dataloader, lr_scheduler);
  // New code
  Best best;
  accelerator.register_for_checkpointing(best);

  std::int64_t first_epoch = 0;
  if (!settings.resume_from_checkpoint.empty()) {
    const auto report =
        settings.resume_from_checkpoint == "latest"
            ? accelerator.load_state()
            : accelerator.load_state(settings.resume_from_checkpoint);
    first_epoch = report.epoch;
    accelerator.print(
        "resumed at step ", report.step, " in epoch ", report.epoch);
  }
  // Saves in the middle of epochs, and when SIGTERM or SIGUSR1 ask to stop.
  std::function<bool()> save = [] { return false; };
  if (!settings.project_dir.empty()) {
    save = settings.checkpointing_steps > 0
               ? accelerator.save_every({.steps = settings.checkpointing_steps})
               : accelerator.save_every({.minutes = 10});
  }
  std::unique_ptr<accelerate::Profiler> profiler;
  if (!settings.profile.empty()) {
    profiler = accelerator.profile(
        {.schedule_option =
             accelerate::ProfileSchedule{
                 .wait = 1, .warmup = 1, .active = 2, .repeat = 1},
         .output_trace_dir = settings.profile});
  }
  bool stopped = false;
  // End of new code

  accelerate::tqdm progress_bar(settings.num_epochs * train_dataloader.size());
  // New code
  progress_bar.update(
      accelerator.step() * settings.gradient_accumulation_steps);
  // End of new code
  for (int epoch = 0; epoch < settings.num_epochs; ++epoch) {
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
        accelerator.clip_grad_norm_(
            model->parameters(), settings.max_grad_norm);
      }
      // End of new code
      optimizer.step();
      lr_scheduler.step();
      optimizer.zero_grad();
      progress_bar.update(1);
      // New code
      if (progress_bar.n() % 10 == 0) {  // Reading it waits for the device.
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
    // New code
    best.add(accuracy);
    // The same number everywhere; a decision of one process alone would need
    // this as well, since all have to leave the loop together.
    if (best.accuracy >= settings.stop_at_accuracy ||
        best.epochs_since >= settings.patience) {
      accelerator.set_trigger();
    }
    if (accelerator.check_trigger()) {
      accelerator.print("stopped early, at accuracy ", best.accuracy);
      stopped = true;
    }
    if (!settings.project_dir.empty() && settings.checkpointing_steps == 0) {
      accelerator.save_state({.blocking = false});
    }
    // End of new code
  }

  if (!settings.output_dir.empty() && accelerator.is_main_process()) {
    model->save_pretrained(settings.output_dir);
    tokenizer.save_pretrained(settings.output_dir);
  }
  // New code
  profiler.reset();
  accelerator.end_training();  // Waits for a checkpoint that is being written.
  // End of new code
}

}  // namespace

int main(int argc, char** argv) {
  train(parse(argc, argv));
  // New code
  return exit_code;
  // End of new code
}
