// SPDX-License-Identifier: Apache-2.0
#include "accelerate/saving.h"

#include <array>
#include <fstream>
#include <string_view>

#include <ATen/core/Tensor.h>

#include "accelerate/error.h"
#include "accelerate/safetensors.h"
#include "accelerate/tensor_map.h"
#include "base/files.h"
#include "base/str_cat.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxJsonFile = std::size_t{1} << 30;

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
  return Json::parse(read_file(path, kMaxJsonFile), {.source = path.string()});
}

}  // namespace accelerate
