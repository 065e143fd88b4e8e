// SPDX-License-Identifier: Apache-2.0
// Saves models and single files.
#include "accelerate/saving.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iostream>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include "accelerate/accelerator.h"
#include "accelerate/error.h"
#include "accelerate/safetensors.h"
#include "accelerator/accelerator_impl.h"
#include "accelerator/checkpoint_names.h"
#include "base/files.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxDocument = std::size_t{1} << 30;

// `torch.save` writes a zip archive with a pickle in it, or a bare pickle of
// protocol 2 to 5; a safetensors file has `{` as its ninth byte.
void refuse_pickle(const fs::path& path) {
  std::array<char, 9> begin{};
  std::ifstream(path, std::ios::binary).read(begin.data(), begin.size());
  const std::string_view text(begin.data(), begin.size());
  const bool archive = text.starts_with("PK\x03\x04");
  const bool bare = text[0] == '\x80' && text[1] >= 2 && text[1] <= 5;
  if ((archive || bare) && text[8] != '{') {
    throw FormatError(
        str_cat(path.string(), " is a pickle file, which could execute code"),
        "save the tensors from Python with `safetensors.torch.save_file`");
  }
}

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

// Names that share memory with the same type, shape and strides, in map order.
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

// A reader that does not tie weights itself finds only the first name.
void warn_about_tied_weights(const TensorMap& tensors) {
  std::string list;
  for (const auto& names : tied_names(tensors)) {
    list += str_cat(list.empty() ? "`" : "; `", names[0], "` also stores `");
    for (std::size_t i = 1; i < names.size(); ++i) {
      list += str_cat(i == 1 ? "" : ", `", names[i], "`");
    }
  }
  if (!list.empty()) {
    std::cerr
        << str_cat(
               "warning: save_model wrote tied weights only once: ", list, "\n")
        << std::flush;
  }
}

}  // namespace

void save(const TensorMap& tensors, const fs::path& path) {
  save_safetensors(tensors, path);
}

void save(const Json& value, const fs::path& path) {
  write_file(path, value.dump({.indent = 2}) + "\n");
}

template <>
TensorMap load(const fs::path& path) {
  refuse_pickle(path);
  return load_safetensors(path);
}

template <>
Json load(const fs::path& path) {
  refuse_pickle(path);
  return Json::parse(read_file(path, kMaxDocument), {.source = path.string()});
}

bool Accelerator::saves_files() const {
  return impl_->checkpoints->project.save_on_each_node ? is_local_main_process()
                                                       : is_main_process();
}

TensorMap Accelerator::state_dict_of(const torch::nn::Module& model) {
  return merge_named(
      named_tensors(model.named_parameters()),
      named_tensors(model.named_buffers()));
}

void Accelerator::save_module(
    const torch::nn::Module& model,
    const fs::path& save_directory,
    const SaveModelOptions& options) const {
  const TensorMap state = state_dict_of(model);
  refuse_meta(state);
  if (fs::exists(save_directory) && !fs::is_directory(save_directory)) {
    throw ArgumentError(
        str_cat(
            "save_model needs a folder, but ",
            save_directory.string(),
            " is a file"),
        "pass a folder");
  }
  if (saves_files()) {
    save_sharded(
        state,
        save_directory,
        {.max_shard_size = options.max_shard_size.bytes()});
    warn_about_tied_weights(state);
  }
}

}  // namespace accelerate
