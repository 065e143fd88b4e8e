// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/classes/legacy_files.h"

#include <algorithm>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "tokenizers/files/json_node.h"
#include "tokenizers/text/unicode.h"

namespace transformers::tokenizers {
namespace {

using accelerate::FormatError;
using accelerate::Json;
using accelerate::read_file;
using accelerate::str_cat;
namespace fs = std::filesystem;

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

void check_utf8(const std::string& text, const std::string& source) {
  const std::size_t invalid = find_invalid_utf8(text);
  if (invalid != std::string::npos) {
    throw FormatError(str_cat(source, ": byte ", invalid, " is not UTF-8"));
  }
}

std::string_view without_spaces_at_end(std::string_view line) {
  while (!line.empty() && is_a(last_character(line), kSpace)) {
    do {
      line.remove_suffix(1);
    } while (!line.empty() &&
             (static_cast<unsigned char>(line.back()) & 0xC0) == 0x80);
  }
  return line;
}

// One token per line; the line number is the id. A token that appears twice
// gets the later id, as in Hugging Face `tokenizers`.
Json read_vocab_txt(const std::string& source) {
  const std::string text = read_file(source, kMaxFileBytes);
  check_utf8(text, source);
  Json::Object vocab;
  std::int64_t id = 0;
  for (const std::string_view line : lines_of(text)) {
    vocab[without_spaces_at_end(line)] = id++;
  }
  return vocab;
}

Json read_merges_txt(const std::string& source) {
  const std::string text = read_file(source, kMaxFileBytes);
  check_utf8(text, source);
  Json::Array merges;
  std::size_t number = 0;
  for (const std::string_view line : lines_of(text)) {
    ++number;
    if (line.empty() || line.starts_with("#version")) {
      continue;
    }
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos ||
        line.find(' ', space + 1) != std::string_view::npos) {
      throw FormatError(str_cat(
          source,
          ":",
          number,
          ": expected two tokens separated by a space, found `",
          accelerate::printable(line),
          "`"));
    }
    merges.push_back(
        Json::array({line.substr(0, space), line.substr(space + 1)}));
  }
  return merges;
}

[[noreturn]] void throw_missing(
    const fs::path& folder,
    const TokenizerClass& kind,
    const std::vector<const char*>& names) {
  if (names.empty()) {
    throw accelerate::IoError(
        str_cat(
            "`",
            folder.string(),
            "` has no tokenizer.json, which the tokenizer class `",
            kind.name,
            "` needs"),
        "save the tokenizer with a current version of Hugging Face "
        "Transformers");
  }
  const std::vector<std::string> list(names.begin(), names.end());
  throw accelerate::IoError(
      str_cat(
          "the tokenizer class `",
          kind.name,
          "` needs tokenizer.json, or ",
          accelerate::join(list, " and "),
          ", but `",
          folder.string(),
          "` contains neither"),
      "pass a folder that `save_pretrained` wrote");
}

}  // namespace

VocabularyText read_vocabulary_files(
    const fs::path& folder, const TokenizerClass& kind) {
  std::vector<const char*> names;
  if (kind.files == VocabularyFiles::vocab_txt) {
    names = {"vocab.txt"};
  } else if (kind.files == VocabularyFiles::vocab_json_and_merges) {
    names = {"vocab.json", "merges.txt"};
  }
  const auto exists = [&](const char* name) {
    return fs::exists(folder / name);
  };
  if (names.empty() || !std::all_of(names.begin(), names.end(), exists)) {
    throw_missing(folder, kind, names);
  }
  VocabularyText text;
  text.source = (folder / names.front()).string();
  if (kind.files == VocabularyFiles::vocab_txt) {
    text.vocab = read_vocab_txt(text.source).dump();
    return text;
  }
  text.vocab = Json::parse(
                   read_file(text.source, kMaxFileBytes),
                   {.source = text.source, .max_depth = 4})
                   .dump();
  text.merges = read_merges_txt((folder / "merges.txt").string()).dump();
  return text;
}

}  // namespace transformers::tokenizers
