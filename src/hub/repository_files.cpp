// SPDX-License-Identifier: Apache-2.0
#include "hub/repository_files.h"

#include <algorithm>
#include <array>

#include <fnmatch.h>

#include "accelerate/error.h"
#include "base/safetensors_index.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "hub/repository.h"

namespace transformers::hub {
namespace {

using accelerate::FormatError;
using accelerate::str_cat;

constexpr std::array kConfigFiles = {"config.json", "generation_config.json"};
constexpr std::array kTokenizerFiles = {
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
};
// A tokenizer has at least one of these files.
constexpr std::array kVocabularies = {
    "tokenizer.json", "vocab.txt", "vocab.json"};

bool contains(const auto& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_pattern(const std::string& file) {
  return file.find_first_of("*?[") != std::string::npos;
}

bool is_file(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

bool is_pickled(const std::string& name) {
  return name.ends_with(".bin") || name.ends_with(".pt") ||
         name.ends_with(".pth") || name.ends_with(".ckpt") ||
         name.ends_with(".pkl");
}

std::vector<std::string> choose_named(
    const std::vector<std::string>& files,
    const std::vector<std::string>& available,
    const std::string& source) {
  std::vector<std::string> chosen;
  for (const std::string& file : files) {
    if (is_pattern(file)) {
      for (const std::string& name : available) {
        if (::fnmatch(file.c_str(), name.c_str(), 0) == 0 &&
            !is_pickled(name) && !contains(chosen, name)) {
          chosen.push_back(name);
        }
      }
    } else if (!contains(available, file)) {
      throw accelerate::IoError(
          str_cat(source, " has no file `", file, "`"),
          "check the file name and the revision");
    } else if (!contains(chosen, file)) {
      chosen.push_back(file);
    }
  }
  return chosen;
}

void add_weights(
    std::vector<std::string>& chosen,
    const std::vector<std::string>& available,
    const std::string& source) {
  if (contains(available, kWeights)) {
    chosen.emplace_back(kWeights);
    return;
  }
  if (contains(available, kWeightsIndex)) {
    chosen.emplace_back(kWeightsIndex);
    return;
  }
  const auto pickled =
      std::find_if(available.begin(), available.end(), is_pickled);
  if (pickled != available.end()) {
    throw accelerate::UnsupportedError(
        str_cat(
            source,
            " has weights only in `",
            *pickled,
            "`, a pickle file, which can run code when it is loaded"),
        "use a revision with `model.safetensors`, or convert the weights to "
        "safetensors with Python and pass their folder");
  }
  throw accelerate::IoError(
      str_cat(source, " has no `", kWeights, "`"),
      "check the name; repositories with only a tokenizer or a dataset have no "
      "weights");
}

}  // namespace

std::vector<std::string> choose_files(
    const RequestedFiles& requested,
    const std::vector<std::string>& available,
    const std::string& source) {
  if (!requested.files.empty()) {
    return choose_named(requested.files, available, source);
  }
  std::vector<std::string> chosen;
  const auto add = [&](const auto& names) {
    for (const char* name : names) {
      if (contains(available, name)) {
        chosen.emplace_back(name);
      }
    }
  };
  add(kConfigFiles);
  if (requested.content != Content::tokenizer &&
      !contains(chosen, "config.json")) {
    throw accelerate::IoError(
        str_cat(source, " has no `config.json`"),
        "check the name; this is not a Transformers model");
  }
  if (requested.content != Content::config) {
    add(kTokenizerFiles);
  }
  if (requested.content == Content::model) {
    add_weights(chosen, available, source);
  }
  return chosen;
}

std::vector<std::string> shards_of(const std::filesystem::path& index) {
  std::vector<std::string> shards;
  for (const auto& [file, tensors] :
       accelerate::read_safetensors_index(index)) {
    if (!is_plain_name(file) || !file.ends_with(".safetensors")) {
      throw FormatError(str_cat(
          index.string(),
          ": `",
          accelerate::printable(tensors.front()),
          "` is mapped to `",
          accelerate::printable(file),
          "`, which is not a safetensors file in this folder"));
    }
    shards.push_back(file);
  }
  return shards;
}

std::vector<std::string> missing_files(
    const RequestedFiles& requested, const std::filesystem::path& folder) {
  std::vector<std::string> missing;
  if (!requested.files.empty()) {
    for (const std::string& file : requested.files) {
      if (!is_pattern(file) && !is_file(folder / file)) {
        missing.push_back(file);
      }
    }
    return missing;
  }
  if (requested.content != Content::tokenizer &&
      !is_file(folder / "config.json")) {
    missing.emplace_back("config.json");
  }
  if (requested.content == Content::tokenizer &&
      std::none_of(
          kVocabularies.begin(), kVocabularies.end(), [&](const char* name) {
            return is_file(folder / name);
          })) {
    missing.emplace_back("tokenizer.json");
  }
  if (requested.content == Content::model && !is_file(folder / kWeights)) {
    if (!is_file(folder / kWeightsIndex)) {
      missing.emplace_back(kWeights);
      return missing;
    }
    for (const std::string& shard : shards_of(folder / kWeightsIndex)) {
      if (!is_file(folder / shard)) {
        missing.push_back(shard);
      }
    }
  }
  return missing;
}

}  // namespace transformers::hub
