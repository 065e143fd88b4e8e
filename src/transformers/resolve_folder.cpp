// SPDX-License-Identifier: Apache-2.0
#include "transformers/resolve_folder.h"

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace transformers {

std::filesystem::path resolve_folder(const std::string& name) {
  if (std::filesystem::is_directory(name)) {
    return name;
  }
  throw accelerate::IoError(
      accelerate::str_cat("`", accelerate::printable(name), "` is no folder"),
      "give a folder with config.json and model.safetensors");
}

}  // namespace transformers
