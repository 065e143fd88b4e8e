// SPDX-License-Identifier: Apache-2.0
#include "config/user_folders.h"

#include <algorithm>
#include <array>

#include <pwd.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate {
namespace {

std::string home_in_password_database() {
  std::array<char, 16384> buffer;
  passwd entry{};
  passwd* found = nullptr;
  ::getpwuid_r(::getuid(), &entry, buffer.data(), buffer.size(), &found);
  return found != nullptr && found->pw_dir != nullptr ? found->pw_dir : "";
}

std::filesystem::path cache_base(const Environment& environment) {
  const auto cache = environment.get("XDG_CACHE_HOME");
  return expand_home(cache.value_or("~/.cache"), environment);
}

}  // namespace

std::filesystem::path expand_home(
    const std::string& path, const Environment& environment) {
  if (path != "~" && !path.starts_with("~/")) {
    return path;
  }
  std::string home = environment.get("HOME").value_or("");
  if (home.empty()) {
    home = home_in_password_database();
  }
  if (home.empty()) {
    throw ConfigError(
        str_cat(
            "`",
            printable(path),
            "` cannot be expanded: the environment variable HOME is not set, "
            "and this user has no home folder"),
        "set HOME, or use a path without `~`");
  }
  return std::filesystem::path(home) /
         path.substr(std::min<std::size_t>(2, path.size()));
}

std::filesystem::path hugging_face_home(const Environment& environment) {
  if (const auto home = environment.get("HF_HOME")) {
    return expand_home(*home, environment);
  }
  return cache_base(environment) / "huggingface";
}

std::filesystem::path config_folder(const Environment& environment) {
  return hugging_face_home(environment) / "accelerate";
}

std::filesystem::path cache_folder(const Environment& environment) {
  return cache_base(environment) / "accelerate-cpp";
}

}  // namespace accelerate
