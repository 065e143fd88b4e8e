// SPDX-License-Identifier: Apache-2.0
// The tutorial's script: fine-tunes a sentence-pair classifier.
//
//     cd build/bin
//     ./accelerate launch --cpu --num_processes 2 examples/train [model] [data]
//
// `model` is a folder or a name on the Hub, and `data` is a folder with
// sentence pairs. By default, the program uses a small random model and
// examples/data/.
#include <filesystem>
#include <iostream>
#include <string>

#include <accelerate/accelerate.h>
#include <transformers/transformers.h>

// The build defines this path; `accelerate launch <file>.cpp` does not.
#ifndef ACCELERATE_EXAMPLE_DATA
#define ACCELERATE_EXAMPLE_DATA "examples/data"
#endif

namespace {

using transformers::Dataset;
using transformers::Row;
using transformers::Tokenizer;

// Makes a small BERT with random weights and the vocabulary of the data.
std::string random_checkpoint(const std::string& data) {
  const auto folder =
      std::filesystem::temp_directory_path() / "accelerate-example" / "bert";
  const auto order = accelerate::PartialState().main_process_first();
  // config.json is written last: if it exists, the folder is complete.
  if (!std::filesystem::exists(folder / "config.json")) {
    std::filesystem::create_directories(folder);
    std::filesystem::copy_file(
        data + "/vocab.txt",
        folder / "vocab.txt",
        std::filesystem::copy_options::overwrite_existing);
    accelerate::set_seed(42);
    const auto config =
        transformers::Config::from_json(accelerate::Json::object(
            {{"model_type", "bert"},
             {"vocab_size", 87},
             {"hidden_size", 128},
             {"num_hidden_layers", 2},
             {"num_attention_heads", 4},
             {"intermediate_size", 512},
             {"max_position_embeddings", 128}}));
    transformers::AutoModelForSequenceClassification::from_config(config)
        ->save_pretrained(folder);
  }
  return folder.string();
}

Dataset tokenized(const Tokenizer& tokenizer, const std::string& file) {
  return transformers::load_dataset("csv", file)
      .map(
          [&](const Row& row) {
            const auto encoded = tokenizer(
                row.text("sentence1"),
                row.text("sentence2"),
                {.truncation = true, .max_length = 128});
            return Row{
                {"input_ids", encoded.input_ids},
                {"token_type_ids", encoded.token_type_ids}};
          },
          {.remove_columns = {"sentence1", "sentence2"}});
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && argv[1][0] == '-') {
    const bool is_help = std::string(argv[1]) == "--help";
    (is_help ? std::cout : std::cerr) << "usage: train [model] [data]\n";
    return is_help ? 0 : 2;
  }
  const std::string data = argc > 2 ? argv[2] : ACCELERATE_EXAMPLE_DATA;
  const std::string checkpoint = argc > 1 ? argv[1] : random_checkpoint(data);
  const auto tokenizer =
      transformers::AutoTokenizer::from_pretrained(checkpoint);
  const transformers::DataCollatorWithPadding collator(tokenizer);
  accelerate::DataLoader train_dataloader(
      tokenized(tokenizer, data + "/train.csv"),
      {.batch_size = 32, .shuffle = true},
      collator);
  accelerate::DataLoader eval_dataloader(
      tokenized(tokenizer, data + "/validation.csv"),
      {.batch_size = 32},
      collator);

  // region: loop
  // region: setup
  accelerate::Accelerator accelerator;  // added
  // endregion

  auto model =
      transformers::AutoModelForSequenceClassification::from_pretrained(
          checkpoint, {.num_labels = 2});
  transformers::AdamW optimizer(model->parameters(), 3e-5);

  // region: prepare
  accelerator.prepare(
      train_dataloader, eval_dataloader, model, optimizer);  // added
  // endregion

  const int num_epochs = 3;
  const auto num_training_steps = num_epochs * train_dataloader.size();
  auto lr_scheduler = transformers::get_scheduler(
      "linear",
      optimizer,
      {.num_warmup_steps = 0, .num_training_steps = num_training_steps});
  accelerate::tqdm progress_bar(num_training_steps);

  model->train();
  // region: backward
  for (int epoch = 0; epoch < num_epochs; ++epoch) {
    for (auto& batch : train_dataloader) {
      auto outputs = model(batch);
      accelerator.backward(outputs.loss);  // replaced

      optimizer.step();
      lr_scheduler.step();
      optimizer.zero_grad();
      progress_bar.update(1);
    }
  }
  // endregion
  // endregion
}
