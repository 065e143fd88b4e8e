// SPDX-License-Identifier: Apache-2.0
#include "hub/hugging_face_home.h"

#include <algorithm>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace transformers {

std::filesystem::path expand_home(
    const std::string& path, const accelerate::Environment& environment) {
  if (path != "~" && !path.starts_with("~/")) {
    return path;
  }
  const auto home = environment.get("HOME");
  if (!home) {
    throw accelerate::ConfigError(
        accelerate::str_cat(
            "the environment variable HOME is not set, so `",
            accelerate::printable(path),
            "` cannot be expanded"),
        "set HOME, or use a path without `~`");
  }
  return std::filesystem::path(*home) /
         path.substr(std::min<std::size_t>(2, path.size()));
}

std::filesystem::path hugging_face_home(
    const accelerate::Environment& environment) {
  if (const auto home = environment.get("HF_HOME")) {
    return expand_home(*home, environment);
  }
  if (const auto cache = environment.get("XDG_CACHE_HOME")) {
    return expand_home(*cache, environment) / "huggingface";
  }
  return expand_home("~/.cache/huggingface", environment);
}

}  // namespace transformers
