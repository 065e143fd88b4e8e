// SPDX-License-Identifier: Apache-2.0
#include "tracking/wandb_options.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "accelerate/error.h"
#include "base/hmac.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "tracking/run_files.h"
#include "tracking/wandb_tracker.h"

namespace accelerate {
namespace {

constexpr auto& kTracker = WandbTracker::kName;
constexpr std::size_t kMaxCharacters = 128;

std::size_t characters_in(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

std::string new_run_id() {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::string id = random_bytes(8);
  for (char& c : id) {
    c = kLetters[static_cast<unsigned char>(c) % kLetters.size()];
  }
  return id;
}

void check_run_id(const std::string& id) {
  const bool forbidden = std::ranges::any_of(id, [](char c) {
    return static_cast<unsigned char>(c) < 0x20 ||
           std::string_view(":;,#?/\\'").find(c) != std::string_view::npos;
  });
  if (forbidden || trim(id) != id || characters_in(id) > kMaxCharacters) {
    throw ArgumentError(
        str_cat("`", printable(id), "` cannot be the id of a W&B run"),
        "choose an id of at most 128 characters, without `:;,#?/\\'` and "
        "without leading or trailing whitespace");
  }
}

std::vector<std::string> tags_of(
    const TrackerSetup& setup, const Environment& environment) {
  std::vector<std::string> tags;
  const Json* const tag_option = setup.kwargs.find("tags");
  if (tag_option == nullptr || tag_option->is_null()) {
    const std::string list = environment.get("WANDB_TAGS").value_or("");
    for (const std::string& tag : split(list, ',')) {
      if (!trim(tag).empty()) {
        tags.push_back(valid_utf8(std::string(trim(tag))));
      }
    }
    return tags;
  }
  const Json list =
      tag_option->is_string() ? Json::array({*tag_option}) : *tag_option;
  if (!list.is_array() ||
      !std::ranges::all_of(
          list.as_array(), [](const Json& tag) { return tag.is_string(); })) {
    throw ArgumentError(
        str_cat("the option `tags` of tracker `", kTracker, "` is not a list"),
        "pass a list of strings");
  }
  for (const Json& tag : list.as_array()) {
    tags.push_back(valid_utf8(tag.as_string()));
  }
  return tags;
}

}  // namespace

const std::vector<std::string>& wandb_kwargs() {
  static const std::vector<std::string> names{
      "name", "id", "entity", "tags", "notes", "group", "job_type", "dir"};
  return names;
}

std::string wandb_project(const std::string& project) {
  std::string result;
  for (const char c : valid_utf8(project)) {
    if (std::string_view("/\\#?%:").find(c) == std::string_view::npos) {
      result += c;
    } else {
      char escaped[8];
      std::snprintf(escaped, sizeof(escaped), "_x%02X_", c);
      result += escaped;
    }
  }
  if (characters_in(result) > kMaxCharacters) {
    throw ArgumentError(
        str_cat(
            "the project name `",
            printable(project),
            "` has ",
            characters_in(result),
            " characters, but W&B accepts at most ",
            kMaxCharacters),
        "choose a shorter name");
  }
  return result;
}

WandbOptions wandb_options(
    const TrackerSetup& setup, const Environment& environment) {
  check_kwargs(setup, kTracker, wandb_kwargs());
  const auto option = [&](const char* key, const char* variable) {
    return valid_utf8(text_kwarg(
        setup, kTracker, key, environment.get(variable).value_or("")));
  };
  WandbOptions options;
  options.disabled = environment.get("WANDB_MODE") == "disabled";
  options.project = wandb_project(setup.project);
  options.name = option("name", "WANDB_NAME");
  options.entity = option("entity", "WANDB_ENTITY");
  options.notes = option("notes", "WANDB_NOTES");
  options.group = option("group", "WANDB_RUN_GROUP");
  options.job_type = option("job_type", "WANDB_JOB_TYPE");
  options.tags = tags_of(setup, environment);
  options.id = option("id", "WANDB_RUN_ID");
  if (options.id.empty()) {
    options.id = new_run_id();
  }
  check_run_id(options.id);
  const std::string folder = text_kwarg(
      setup, kTracker, "dir", environment.get("WANDB_DIR").value_or(""));
  options.folder =
      (folder.empty() ? setup.logging_dir : std::filesystem::path(folder)) /
      "wandb";
  return options;
}

}  // namespace accelerate
