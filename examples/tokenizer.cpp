// SPDX-License-Identifier: Apache-2.0
// Converts text to token ids and back, with a tokenizer folder written by
// Hugging Face Transformers.
//
//   build/bin/examples/tokenizer <folder with tokenizer.json or vocab.txt>
#include <iostream>
#include <string>
#include <vector>

#include <accelerate/error.h>
#include <transformers/tokenizer.h>

namespace {

void show(const std::string& folder) {
  // region: load
  auto tokenizer = transformers::AutoTokenizer::from_pretrained(folder);
  // endregion

  // region: batch
  const std::vector<std::string> sentences = {
      "The quick brown fox jumps over the lazy dog.", "Hello world!"};
  auto batch = tokenizer(
      sentences, {.padding = true, .truncation = true, .max_length = 16});
  for (const transformers::Encoding& row : batch) {
    std::cout << row.size() << " tokens: "
              << tokenizer.decode(row.input_ids, {.skip_special_tokens = true})
              << "\n";
  }
  // endregion

  // region: offsets
  auto encoding = tokenizer(
      "Who jumps?",
      "The fox jumps over the lazy dog.",
      {.truncation = "only_second",
       .max_length = 14,
       .stride = 2,
       .return_offsets_mapping = true,
       .return_overflowing_tokens = true});
  for (const auto& [begin, end] : encoding.offset_mapping) {
    std::cout << begin << "-" << end << " ";
  }
  std::cout << "and " << encoding.overflowing.size() << " more parts\n";
  // endregion
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || argv[1][0] == '-') {
    const bool is_help = argc == 2 && std::string(argv[1]) == "--help";
    (is_help ? std::cout : std::cerr) << "usage: tokenizer <folder>\n";
    return is_help ? 0 : 2;
  }
  try {
    show(argv[1]);
    return 0;
  } catch (const accelerate::Error& error) {
    std::cerr << "error: " << error.what() << "\nhint: " << error.hint()
              << "\n";
    return error.exit_code();
  }
}
