// SPDX-License-Identifier: Apache-2.0
// `accelerate checkpoint`: what there is, whether it is whole, what is in it.
#include "cli/commands/checkpoint.h"

#include <chrono>
#include <cstdint>
#include <filesystem>

#include "accelerate/error.h"
#include "accelerate/json.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "cli/commands/export_checkpoint.h"
#include "folders/checkpoints.h"
#include "folders/documents.h"
#include "folders/leftovers.h"
#include "folders/tensor_table.h"
#include "launch/meeting.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using Rows = std::vector<std::vector<std::string>>;

/// The words after the action.
fs::path folder_argument(const ParsedArgs& arguments, std::size_t index) {
  if (index + 1 >= arguments.words.size()) {
    throw ConfigError(
        str_cat("`checkpoint ", arguments.words[0], "` needs a folder"),
        "see `accelerate checkpoint --help`");
  }
  return arguments.words[index + 1];
}

/// The folder of checkpoints itself, or the project's folder above it.
fs::path folder_of_checkpoints(const fs::path& given) {
  const fs::path below = given / "checkpoints";
  return fs::is_directory(below) ? below : given;
}

std::string age_of(const fs::path& path) {
  std::error_code error;
  const auto written = fs::last_write_time(path, error);
  if (error) {
    return "?";
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(
                           fs::file_time_type::clock::now() - written)
                           .count();
  constexpr std::int64_t kHour = 3600;
  constexpr std::int64_t kDay = 24 * kHour;
  if (seconds < 120) {
    return str_cat(seconds, " s");
  }
  if (seconds < 2 * kHour) {
    return str_cat(seconds / 60, " min");
  }
  return seconds < 2 * kDay ? str_cat(seconds / kHour, " h")
                            : str_cat(seconds / kDay, " d");
}

int list(const ParsedArgs& arguments, CommandContext& context) {
  const auto entries =
      list_checkpoints(folder_of_checkpoints(folder_argument(arguments, 0)));
  Json json = Json::array();
  Rows rows = {{"checkpoint", "step", "epoch", "size", "age", "complete"}};
  for (const CheckpointEntry& entry : entries) {
    const std::string name = entry.path.filename().string();
    if (entry.manifest) {
      const Manifest& manifest = *entry.manifest;
      rows.push_back(
          {name,
           std::to_string(manifest.step),
           std::to_string(manifest.epoch),
           format_bytes(static_cast<double>(manifest.bytes())),
           age_of(entry.path),
           "yes"});
      json.push_back(Json::object(
          {{"path", entry.path.string()},
           {"complete", true},
           {"step", manifest.step},
           {"epoch", manifest.epoch},
           {"iteration", manifest.iteration},
           {"world_size", manifest.world_size},
           {"created", manifest.created},
           {"bytes", manifest.bytes()}}));
    } else {
      rows.push_back(
          {name, "", "", "", age_of(entry.path), "no: " + entry.problem});
      json.push_back(Json::object(
          {{"path", entry.path.string()},
           {"complete", false},
           {"problem", entry.problem}}));
    }
  }
  if (arguments.has("json")) {
    context.console.print(json.dump({.indent = 2}));
  } else if (entries.empty()) {
    context.console.status("no checkpoints");
  } else {
    context.console.print(format_table(rows));
  }
  return 0;
}

int verify(const ParsedArgs& arguments, CommandContext& context) {
  const fs::path folder = folder_argument(arguments, 0);
  const Manifest manifest = read_manifest(folder);
  const auto damages = verify_checkpoint(folder, manifest);
  if (arguments.has("json")) {
    Json list = Json::array();
    for (const auto& [file, what] : damages) {
      list.push_back(Json::object({{"file", file}, {"problem", what}}));
    }
    context.console.print(Json::object({{"path", folder.string()},
                                        {"whole", damages.empty()},
                                        {"damage", list}})
                              .dump({.indent = 2}));
    return damages.empty() ? 0 : 1;
  }
  if (!damages.empty()) {
    throw IoError(
        str_cat(
            "the checkpoint ",
            folder.string(),
            " is damaged",
            describe(damages)),
        "load another one that `accelerate checkpoint verify` finds whole");
  }
  context.console.print(str_cat(
      folder.string(),
      ": whole, ",
      manifest.files.size(),
      " files, ",
      format_bytes(static_cast<double>(manifest.bytes()))));
  return 0;
}

std::string shape_text(const SafetensorsEntry& entry) {
  std::string text;
  for (const auto size : entry.shape) {
    text += str_cat(text.empty() ? "" : "x", size);
  }
  return text.empty() ? "scalar" : text;
}

int inspect(const ParsedArgs& arguments, CommandContext& context) {
  const fs::path folder = folder_argument(arguments, 0);
  const Manifest manifest = read_manifest(folder);
  const auto places = tensors_of_checkpoint(folder, manifest);
  if (arguments.has("json")) {
    Json tensors = Json::array();
    for (const auto& [file, entry] : places) {
      tensors.push_back(Json::object(
          {{"file", file},
           {"name", entry.name},
           {"dtype", entry.dtype},
           {"shape", entry.shape},
           {"bytes", entry.end - entry.begin}}));
    }
    context.console.print(Json::object({{"step", manifest.step},
                                        {"epoch", manifest.epoch},
                                        {"world_size", manifest.world_size},
                                        {"tensors", tensors}})
                              .dump({.indent = 2}));
    return 0;
  }
  Rows rows = {{"file", "tensor", "dtype", "shape", "size"}};
  for (const auto& [file, entry] : places) {
    rows.push_back(
        {file,
         entry.name,
         entry.dtype,
         shape_text(entry),
         format_bytes(static_cast<double>(entry.end - entry.begin))});
  }
  context.console.print(str_cat(
      "step ",
      manifest.step,
      ", epoch ",
      manifest.epoch,
      ", saved by ",
      manifest.world_size,
      manifest.world_size == 1 ? " process" : " processes",
      ", ",
      manifest.created,
      "\n\n",
      format_table(rows)));
  return 0;
}

Json json_of(
    const std::vector<TensorDifference>& tensors,
    const std::vector<DocumentDifference>& documents) {
  Json list = Json::array();
  for (const auto& [name, what] : tensors) {
    list.push_back(Json::object({{"tensor", name}, {"difference", what}}));
  }
  for (const auto& [document, key, what] : documents) {
    list.push_back(Json::object(
        {{"document", document}, {"key", key}, {"difference", what}}));
  }
  return list;
}

std::string tables_of(
    const std::vector<TensorDifference>& tensors,
    const std::vector<DocumentDifference>& documents) {
  std::vector<std::string> tables;
  if (!tensors.empty()) {
    Rows rows = {{"tensor", "difference"}};
    for (const auto& [name, what] : tensors) {
      rows.push_back({name, what});
    }
    tables.push_back(format_table(rows));
  }
  if (!documents.empty()) {
    Rows rows = {{"document", "key", "difference"}};
    for (const auto& [document, key, what] : documents) {
      rows.push_back({printable(document), printable(key), what});
    }
    tables.push_back(format_table(rows));
  }
  return join(tables, "\n\n");
}

int diff(const ParsedArgs& arguments, CommandContext& context) {
  const fs::path first = folder_argument(arguments, 0);
  const fs::path second = folder_argument(arguments, 1);
  const auto tensors = compare_checkpoints(first, second);
  const auto documents = compare_documents(first, second);
  const bool equal = tensors.empty() && documents.empty();
  if (arguments.has("json")) {
    context.console.print(json_of(tensors, documents).dump({.indent = 2}));
  } else {
    context.console.print(
        equal ? "every tensor and every document is equal"
              : tables_of(tensors, documents));
  }
  return equal ? 0 : 1;
}

int prune(const ParsedArgs& arguments, CommandContext& context) {
  const auto text = arguments.get("keep");
  if (!text) {
    throw ConfigError(
        "`checkpoint prune` needs `--keep`", "add `--keep 3`, for example");
  }
  if (text->empty() || text->size() > 9 ||
      text->find_first_not_of("0123456789") != text->npos ||
      std::stoul(*text) == 0) {
    throw ConfigError(
        str_cat("--keep `", printable(*text), "` is no number above 0"));
  }
  const fs::path folder = folder_of_checkpoints(folder_argument(arguments, 0));
  for (const std::string& problem : remove_abandoned(folder).problems) {
    context.console.warning(problem);
  }
  // Only what is whole to the last byte counts: the last good one must stay.
  const auto removed =
      prune_checkpoints(folder, {.keep = std::stoul(*text), .checksums = true});
  if (arguments.has("json")) {
    Json list = Json::array();
    for (const fs::path& path : removed) {
      list.push_back(path.string());
    }
    context.console.print(list.dump({.indent = 2}));
    return 0;
  }
  for (const fs::path& path : removed) {
    context.console.print(str_cat("removed ", path.string()));
  }
  if (removed.empty()) {
    context.console.status("nothing to remove");
  }
  return 0;
}

struct Action {
  const char* name;
  std::size_t folders;
  int (*run)(const ParsedArgs&, CommandContext&);
};
constexpr Action kActions[] = {
    {"list", 1, list},
    {"verify", 1, verify},
    {"inspect", 1, inspect},
    {"diff", 2, diff},
    {"prune", 1, prune},
    {"export", 2, export_checkpoint},
};

std::vector<std::string> action_names() {
  std::vector<std::string> names;
  for (const Action& action : kActions) {
    names.push_back(action.name);
  }
  return names;
}

// An option that the action would not look at is refused.
void check_arguments(const Action& action, const ParsedArgs& arguments) {
  const std::string name = action.name;
  for (const auto& [option, owner] :
       {std::pair("keep", "prune"), std::pair("config", "export")}) {
    if (arguments.has(option) && name != owner) {
      throw ConfigError(str_cat(
          "`checkpoint ",
          name,
          "` has no `--",
          option,
          "`; `checkpoint ",
          owner,
          "` has"));
    }
  }
  if (arguments.words.size() != action.folders + 1) {
    throw ConfigError(
        str_cat(
            "`checkpoint ",
            name,
            "` takes ",
            action.folders == 1 ? "one folder" : "two folders",
            ", got ",
            arguments.words.size() - 1),
        "see `accelerate checkpoint --help`");
  }
}

}  // namespace

const CommandInfo& checkpoint_info() {
  static const CommandInfo info = {
      .name = "checkpoint",
      .summary = "List, verify, compare, remove and export checkpoints.",
      .usage =
          "checkpoint {list | verify | inspect | diff | prune | export} "
          "<folder> [folder]",
      .options =
          {{.name = "keep",
            .value_name = "N",
            .help = "prune: so many complete checkpoints stay."},
           {.name = "config",
            .value_name = "FOLDER",
            .help = "export: where config.json and the tokenizer's files are."},
           {.name = "json", .help = "Print JSON."}},
      .least_words = 1,
      .most_words = 3,
      .first_words = action_names(),
      .notes =
          "list shows step, epoch, size, age and whether each is complete. "
          "verify compares every byte with the manifest's checksums. inspect "
          "lists tensors. diff compares tensors and documents (optimizer "
          "settings, schedulers, loaders, step) and ends with 1 when any "
          "differ. export writes the model as a Hugging Face folder.",
      .examples =
          {"accelerate checkpoint list runs/first",
           "accelerate checkpoint verify runs/first/checkpoints/checkpoint_3",
           "accelerate checkpoint prune --keep 2 runs/first",
           "accelerate checkpoint export --config bert-base "
           "runs/first/checkpoints/checkpoint_3 tuned"},
  };
  return info;
}

int run_checkpoint(const ParsedArgs& arguments, CommandContext& context) {
  const std::string& name = arguments.words[0];
  for (const Action& action : kActions) {
    if (name == action.name) {
      check_arguments(action, arguments);
      return action.run(arguments, context);
    }
  }
  throw ConfigError(
      str_cat(
          "`checkpoint ",
          printable(name),
          "` is not one of ",
          join(action_names(), ", ")),
      did_you_mean(name, action_names()));
}

}  // namespace accelerate
