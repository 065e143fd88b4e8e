// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/save_model.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "accelerate/error.h"
#include "accelerate/safetensors.h"
#include "base/message.h"
#include "base/str_cat.h"
#include "checkpoint/checkpoint_names.h"
#include "training/module_tensors.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

void refuse_meta(const TensorMap& tensors) {
  std::string names;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.is_meta()) {
      names += str_cat(names.empty() ? "`" : ", `", name, "`");
    }
  }
  if (!names.empty()) {
    throw StateError(
        str_cat(
            "cannot save the model: these tensors are on the `meta` device and "
            "have no values: ",
            names),
        "load or initialize the model's weights first");
  }
}

// Groups the names whose tensors have the same memory, type, shape and strides.
std::vector<std::vector<std::string>> tied_names(const TensorMap& tensors) {
  using Shape = std::vector<std::int64_t>;
  std::map<
      std::tuple<const void*, c10::ScalarType, Shape, Shape>,
      std::vector<std::string>>
      all;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.layout() == c10::kStrided && tensor.numel() > 0) {
      all[{tensor.const_data_ptr(),
           tensor.scalar_type(),
           tensor.sizes().vec(),
           tensor.strides().vec()}]
          .push_back(name);
    }
  }
  std::vector<std::vector<std::string>> tied;
  for (auto& [memory, names] : all) {
    if (names.size() > 1) {
      tied.push_back(std::move(names));
    }
  }
  std::ranges::sort(tied);
  return tied;
}

// Warns because a reader that does not tie weights itself finds only the first
// name of a tied weight.
void warn_about_tied_weights(const TensorMap& tensors) {
  std::string list;
  for (const auto& names : tied_names(tensors)) {
    list += str_cat(
        list.empty() ? "`" : "; `", names[0], "` also holds the values of `");
    for (std::size_t i = 1; i < names.size(); ++i) {
      list += str_cat(i == 1 ? "" : ", `", names[i], "`");
    }
  }
  if (!list.empty()) {
    print_warning(str_cat("save_model wrote tied weights only once: ", list));
  }
}

}  // namespace

TensorMap state_dict_of(const torch::nn::Module& model) {
  return merge_named(all_parameters_of(model), buffers_of(model));
}

void check_model_files(const TensorMap& weights, const fs::path& directory) {
  refuse_meta(weights);
  if (fs::exists(directory) && !fs::is_directory(directory)) {
    throw ArgumentError(
        str_cat(
            "save_model needs a folder, but ",
            directory.string(),
            " is a file"),
        "pass a folder");
  }
}

void write_model_files(
    const TensorMap& weights,
    const fs::path& directory,
    const SaveModelOptions& options) {
  save_sharded(
      weights, directory, {.max_shard_size = options.max_shard_size.bytes()});
  warn_about_tied_weights(weights);
}

}  // namespace accelerate
