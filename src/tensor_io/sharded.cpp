// SPDX-License-Identifier: Apache-2.0
// Folders of safetensors files with an index, in the layout of Hugging Face.
#include <algorithm>
#include <iomanip>
#include <set>

#include <ATen/core/Tensor.h>

#include "accelerate/error.h"
#include "accelerate/safetensors.h"
#include "base/files.h"
#include "base/json.h"
#include "base/safetensors_index.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

std::string single_name(const std::string& name) {
  return name + ".safetensors";
}
std::string index_name(const std::string& name) {
  return name + ".safetensors.index.json";
}

std::string shard_name(
    const std::string& name, std::size_t number, std::size_t count) {
  std::ostringstream out;
  out << name << "-" << std::setfill('0') << std::setw(5) << number << "-of-"
      << std::setw(5) << count << ".safetensors";
  return out.str();
}

TensorMap load_indexed(const fs::path& index) {
  TensorMap tensors;
  for (const auto& [name, listed] : read_safetensors_index(index)) {
    const SafetensorsFile file(index.parent_path() / name);
    for (const std::string& tensor : listed) {
      if (!file.contains(tensor)) {
        throw FormatError(str_cat(
            index.string(),
            ": `",
            printable(tensor),
            "` is mapped to `",
            name,
            "`, which does not contain it"));
      }
      tensors.emplace(tensor, file.tensor(tensor));
    }
    for (const auto& [alias, tensor] : file.metadata()) {
      if (const auto found = tensors.find(tensor); found != tensors.end()) {
        tensors.try_emplace(alias, found->second);
      }
    }
  }
  return tensors;
}

// The hint for a folder that contains nothing to load.
std::string hint_for(const fs::path& folder) {
  if (fs::exists(folder / "pytorch_model.bin") ||
      fs::exists(folder / "pytorch_model.bin.index.json")) {
    return "save the model with `safe_serialization=True` in Python; the "
           "folder "
           "has only pytorch_model.bin, a pickle that could run code";
  }
  return {};
}

// Tensors in the order of their names, split where a file would be too large.
std::vector<TensorMap> cut(const TensorMap& tensors, std::uint64_t limit) {
  std::vector<TensorMap> shards(1);
  std::map<const void*, std::size_t> shard_of;  // Tied weights stay together.
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) {
    const void* memory = tensor.defined() && tensor.numel() > 0
                             ? tensor.const_data_ptr()
                             : nullptr;
    if (memory != nullptr && shard_of.contains(memory)) {
      shards[shard_of[memory]].emplace(name, tensor);
      continue;
    }
    const std::uint64_t more = tensor.defined() ? tensor.nbytes() : 0;
    if (!shards.back().empty() && bytes + more > limit) {
      shards.emplace_back();
      bytes = 0;
    }
    bytes += more;
    shards.back().emplace(name, tensor);
    if (memory != nullptr) {
      shard_of[memory] = shards.size() - 1;
    }
  }
  return shards;
}

// Whether `save_sharded` wrote `file` for a model named `name`.
bool is_shard_of(const std::string& file, const std::string& name) {
  return file == single_name(name) || file == index_name(name) ||
         (file.starts_with(name + "-") && file.ends_with(".safetensors") &&
          file.find("-of-") != std::string::npos);
}

void remove_old_shards(
    const fs::path& folder,
    const std::string& name,
    const std::set<std::string>& keep) {
  std::vector<fs::path> old;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string file = entry.path().filename().string();
    if (is_shard_of(file, name) && !keep.contains(file)) {
      old.push_back(entry.path());
    }
  }
  for (const fs::path& path : old) {
    fs::remove(path);
  }
}

}  // namespace

TensorMap load_sharded(const fs::path& folder, const std::string& name) {
  if (fs::exists(folder / single_name(name))) {
    return load_safetensors(folder / single_name(name));
  }
  if (fs::exists(folder / index_name(name))) {
    return load_indexed(folder / index_name(name));
  }
  throw IoError(
      str_cat(
          folder.string(),
          " has neither ",
          single_name(name),
          " nor ",
          index_name(name)),
      hint_for(folder));
}

void save_sharded(
    const TensorMap& tensors,
    const fs::path& folder,
    const SaveShardedOptions& options) {
  if (options.max_shard_size == 0) {
    throw ArgumentError(
        "`max_shard_size` is 0", "pass the maximum file size in bytes");
  }
  const std::vector<TensorMap> shards = cut(tensors, options.max_shard_size);
  std::set<std::string> written;
  if (shards.size() == 1) {
    written.insert(single_name(options.name));
    save_safetensors(
        shards[0],
        folder / single_name(options.name),
        {.metadata = options.metadata});
    remove_old_shards(folder, options.name, written);
    return;
  }
  Json weight_map = Json::object();
  std::int64_t total = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string file = shard_name(options.name, i + 1, shards.size());
    save_safetensors(shards[i], folder / file, {.metadata = options.metadata});
    written.insert(file);
    const SafetensorsFile saved(folder / file);
    for (const std::string& tensor : saved.names()) {
      weight_map[tensor] = file;
      total += static_cast<std::int64_t>(shards[i].at(tensor).nbytes());
    }
  }
  Json index = Json::object(
      {{"metadata", Json::object({{"total_size", total}})},
       {"weight_map", std::move(weight_map)}});
  write_file(
      folder / index_name(options.name), index.dump({.indent = 2}) + "\n");
  written.insert(index_name(options.name));
  remove_old_shards(folder, options.name, written);
}

}  // namespace accelerate
