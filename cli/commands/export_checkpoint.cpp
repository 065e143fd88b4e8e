// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/export_checkpoint.h"

#include <filesystem>
#include <string>
#include <system_error>

#include "accelerate/error.h"
#include "accelerate/json.h"
#include "base/files.h"
#include "base/new_file.h"
#include "base/str_cat.h"
#include "checkpoint_directory/checkpoints.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

/// A folder that has a temporary name until it is complete.
class PartialDirectory {
 public:
  explicit PartialDirectory(const fs::path& out) : out_(without_slash(out)) {
    fs::create_directories(out_.parent_path());
    path_ = create_folder(str_cat(out_.string(), ".part-"));
  }
  PartialDirectory(const PartialDirectory&) = delete;
  PartialDirectory& operator=(const PartialDirectory&) = delete;
  ~PartialDirectory() {
    if (!path_.empty()) {
      std::error_code ignored;
      fs::remove_all(path_, ignored);
    }
  }

  const fs::path& path() const { return path_; }

  void finish() {
    std::error_code error;
    fs::rename(path_, out_, error);
    if (error) {
      throw_errno("write", out_, error.value());
    }
    path_.clear();
  }

 private:
  // Removes a trailing slash.
  static fs::path without_slash(const fs::path& out) {
    const fs::path full = fs::absolute(out).lexically_normal();
    return full.has_filename() ? full : full.parent_path();
  }

  fs::path out_;
  fs::path path_;
};

// Files of a Hugging Face folder other than weights.
bool is_config_file(const std::string& name) {
  return name == "config.json" || name == "generation_config.json" ||
         name == "special_tokens_map.json" || name == "vocab.txt" ||
         name == "vocab.json" || name == "merges.txt" ||
         name.starts_with("tokenizer");
}

void copy_config_files(const fs::path& from, const fs::path& to) {
  if (!fs::exists(from / "config.json")) {
    throw IoError(
        str_cat(from.string(), " has no config.json"),
        "pass the folder of the original model with `--config`");
  }
  for (const auto& entry : fs::directory_iterator(from)) {
    const std::string name = entry.path().filename().string();
    if (is_config_file(name) && entry.is_regular_file()) {
      copy_to_new_file(entry.path(), to / name);
    }
  }
}

bool is_first_model(const std::string& name) {
  return name == "model.safetensors" || name.starts_with("model-") ||
         name == "model.safetensors.index.json";
}

bool is_other_model(const std::string& name) {
  return name.starts_with("model_") && name.ends_with(".safetensors");
}

void check(
    const fs::path& folder, const Manifest& manifest, const fs::path& out) {
  const auto damages = verify_checkpoint(folder, manifest);
  if (!damages.empty()) {
    throw IoError(str_cat(
        "the checkpoint ", folder.string(), " is damaged", describe(damages)));
  }
  if (fs::exists(out) && !fs::is_empty(out)) {
    throw IoError(
        str_cat(out.string(), " exists and is not empty"),
        "export to a new folder");
  }
}

}  // namespace

int export_checkpoint(const ParsedArgs& arguments, CommandContext& context) {
  const fs::path folder = arguments.positional[1];
  const fs::path out = arguments.positional[2];
  const Manifest manifest = read_manifest(folder);
  check(folder, manifest, out);
  PartialDirectory part(out);
  Json left_out = Json::array();
  for (const auto& [name, sum] : manifest.files) {
    if (is_first_model(name)) {
      copy_to_new_file(folder / name, part.path() / name);
    } else if (is_other_model(name)) {
      left_out.push_back(name);
    }
  }
  if (const auto config = arguments.get("config")) {
    copy_config_files(*config, part.path());
  }
  part.finish();
  if (arguments.has("json")) {
    context.console.print(
        Json::object({{"wrote", out.string()}, {"left_out", left_out}})
            .dump({.indent = 2}));
    return 0;
  }
  context.console.print(str_cat(
      "wrote ",
      out.string(),
      arguments.has("config") ? "" : " (weights only)"));
  for (const Json& name : left_out.as_array()) {
    context.console.warning(str_cat(
        "left out ",
        name.as_string(),
        ": a Hugging Face folder can hold only one model"));
  }
  if (!arguments.has("config")) {
    context.console.hint(
        "`from_pretrained` also needs a config.json: copy one into this "
        "folder, or export to a new folder with `--config <folder>`");
  }
  return 0;
}

}  // namespace accelerate
