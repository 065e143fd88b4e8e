// SPDX-License-Identifier: Apache-2.0
// The last step of the tutorial: calls a training function in several
// processes, from a C++ notebook or, as here, from a program.
//
//     build/bin/examples/notebook_train [data]
//
// notebooks/tutorial_python.ipynb has the same function in a C++ cell.
#include <iostream>
#include <string>
#include <tuple>

#include <accelerate/accelerate.h>
#include <transformers/transformers.h>

// The build defines this path; `accelerate launch <file>.cpp` does not.
#ifndef ACCELERATE_EXAMPLE_DATA
#define ACCELERATE_EXAMPLE_DATA "examples/data"
#endif

namespace {

// region: function
void training_function(int num_epochs, const std::string& data) {
  using namespace transformers;
  accelerate::Accelerator accelerator;
  accelerate::set_seed(42);

  const auto tokenizer = AutoTokenizer::from_pretrained(data);
  const auto encode = [&](const Row& row) {
    const auto encoded =
        tokenizer(row.text("sentence1"), row.text("sentence2"));
    return Row{
        {"input_ids", encoded.input_ids},
        {"token_type_ids", encoded.token_type_ids}};
  };
  accelerate::DataLoader train_dataloader(
      load_dataset("csv", data + "/train.csv")
          .map(encode, {.remove_columns = {"sentence1", "sentence2"}}),
      {.batch_size = 24, .shuffle = true},
      DataCollatorWithPadding(tokenizer));
  auto model = AutoModelForSequenceClassification::from_config(
      Config::from_json(accelerate::Json::object(
          {{"model_type", "bert"},
           {"vocab_size", tokenizer.size()},
           {"hidden_size", 128},
           {"num_hidden_layers", 2},
           {"num_attention_heads", 4},
           {"intermediate_size", 512}})));
  AdamW optimizer(model->parameters(), 5e-4);
  accelerator.prepare(train_dataloader, model, optimizer);

  accelerate::tqdm progress_bar(num_epochs * train_dataloader.size());
  model->train();
  for (int epoch = 0; epoch < num_epochs; ++epoch) {
    for (auto& batch : train_dataloader) {
      auto outputs = model(batch);
      accelerator.backward(outputs.loss);

      optimizer.step();
      optimizer.zero_grad();
      progress_bar.update(1);
    }
  }
  accelerator.print("trained on ", accelerator.num_processes(), " processes");
}
// endregion

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && argv[1][0] == '-') {
    const bool is_help = std::string(argv[1]) == "--help";
    (is_help ? std::cout : std::cerr) << "usage: notebook_train [data]\n";
    return is_help ? 0 : 2;
  }
  const std::string data = argc > 1 ? argv[1] : ACCELERATE_EXAMPLE_DATA;
  // region: launch
  accelerate::notebook_launcher(
      training_function, std::tuple(1, data), {.num_processes = 2});
  // endregion
}
