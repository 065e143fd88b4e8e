// SPDX-License-Identifier: Apache-2.0
// Reads the size of a model on disk.
#include <map>
#include <set>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/safetensors_header.h"
#include "base/safetensors_index.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "launch/model_size.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxJson = std::size_t{256} << 20;

// Adds up tensors by layer: "layer.weight" and "layer.bias" belong to "layer".
class TensorSum {
 public:
  void add(const SafetensorsEntry& tensor) {
    sizes_[tensor.name.substr(0, tensor.name.rfind('.'))] += tensor.elements();
  }
  void add(const fs::path& file) {
    for (const auto& tensor : read_safetensors_header(file).tensors) {
      add(tensor);
    }
  }
  ModelSize result(const fs::path& source) const {
    ModelSize size;
    size.source = source.string();
    for (const auto& [name, count] : sizes_) {
      size.layers.push_back({name, count});
    }
    return size;
  }

 private:
  std::map<std::string, std::int64_t> sizes_;
};

ModelSize size_from_index(const fs::path& path) {
  TensorSum sum;
  for (const auto& [name, tensors] : read_safetensors_index(path)) {
    std::set<std::string> missing(tensors.begin(), tensors.end());
    const fs::path file = path.parent_path() / name;
    for (const auto& tensor : read_safetensors_header(file).tensors) {
      if (missing.erase(tensor.name) > 0) {
        sum.add(tensor);
      }
    }
    if (!missing.empty()) {
      throw FormatError(str_cat(
          path.string(),
          " lists tensor `",
          printable(*missing.begin()),
          "` for ",
          file.filename().string(),
          ", but that file does not contain it"));
    }
  }
  return sum.result(path);
}

constexpr const char* kIndex = "model.safetensors.index.json";

ModelSize size_from_folder(const fs::path& folder) {
  if (fs::exists(folder / kIndex)) {
    return size_from_index(folder / kIndex);
  }
  std::set<fs::path> files;
  if (fs::exists(folder / "model.safetensors")) {
    // Other files of a checkpoint do not belong to the model.
    files.insert(folder / "model.safetensors");
  } else {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == ".safetensors") {
        files.insert(entry.path());
      }
    }
  }
  TensorSum sum;
  for (const fs::path& file : files) {
    sum.add(file);
  }
  return files.empty() ? ModelSize() : sum.result(*files.begin());
}

ModelSize size_from_config_file(const fs::path& path) {
  return size_from_config(
      Json::parse(read_file(path, kMaxJson), {.source = path.string()}),
      path.string());
}

ModelSize size_from_file(const fs::path& path) {
  if (path.string().ends_with(".safetensors.index.json")) {
    return size_from_index(path);
  }
  if (path.extension() == ".safetensors") {
    TensorSum sum;
    sum.add(path);
    return sum.result(path);
  }
  return size_from_config_file(path);
}

}  // namespace

ModelSize read_model_size(const fs::path& path) {
  if (!fs::exists(path)) {
    throw ConfigError(
        str_cat(path.string(), " does not exist"),
        "pass a model folder, a config.json or a safetensors file");
  }
  ModelSize result;
  if (!fs::is_directory(path)) {
    result = size_from_file(path);
  } else {
    result = size_from_folder(path);
    if (result.source.empty()) {
      result = size_from_config_file(path / "config.json");
    }
  }
  if (result.layers.empty()) {
    throw FormatError(str_cat(path.string(), " has no parameters"));
  }
  return result;
}

}  // namespace accelerate
