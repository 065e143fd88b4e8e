// SPDX-License-Identifier: Apache-2.0
// `accelerate checkpoint`: lists, verifies, compares, prunes and exports
// checkpoints.
#include "cli/commands/checkpoint.h"

#include <chrono>
#include <cstdint>
#include <filesystem>

#include "accelerate/error.h"
#include "accelerate/json.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "checkpoint_directory/checkpoints.h"
#include "checkpoint_directory/documents.h"
#include "checkpoint_directory/leftovers.h"
#include "checkpoint_directory/tensor_table.h"
#include "cli/commands/export_checkpoint.h"
#include "launch/machine_rendezvous.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using Rows = std::vector<std::vector<std::string>>;

/// Returns folder argument number `index`, counted from 0 after the action.
fs::path folder_argument(const ParsedArgs& arguments, std::size_t index) {
  if (index + 1 >= arguments.positional.size()) {
    throw ConfigError(
        str_cat("`checkpoint ", arguments.positional[0], "` needs a folder"),
        "see `accelerate checkpoint --help`");
  }
  return arguments.positional[index + 1];
}

/// Accepts the folder of checkpoints, or the project folder that contains it.
fs::path checkpoints_folder(const fs::path& path) {
  const fs::path subfolder = path / "checkpoints";
  return fs::is_directory(subfolder) ? subfolder : path;
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

std::uintmax_t bytes_in(const fs::path& folder) {
  std::uintmax_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end;
       !error && entry != end;
       entry.increment(error)) {
    std::error_code unknown;
    const auto size = entry->file_size(unknown);
    bytes += unknown ? 0 : size;
  }
  return bytes;
}

// Prints temporary folders, which belong to a save or removal that was killed
// or is still running.
void print_temporary_folders(const fs::path& parent, Console& console) {
  for (const fs::path& folder : temporary_folders(parent)) {
    console.status(str_cat(
        folder.filename().string(),
        " is not a complete checkpoint (",
        format_bytes(static_cast<double>(bytes_in(folder))),
        "); unless a process is still writing to it, `accelerate checkpoint "
        "prune` or the next save will remove it"));
  }
}

int list(const ParsedArgs& arguments, CommandContext& context) {
  const fs::path folder = checkpoints_folder(folder_argument(arguments, 0));
  const auto entries = list_checkpoints(folder);
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
    context.console.status("no checkpoints in " + folder.string());
  } else {
    context.console.print(format_table(rows));
  }
  print_temporary_folders(folder, context.console);
  return 0;
}

int verify(const ParsedArgs& arguments, CommandContext& context) {
  const fs::path folder = folder_argument(arguments, 0);
  const Manifest manifest = read_manifest(folder);
  const auto damages = verify_checkpoint(folder, manifest);
  if (arguments.has("json")) {
    Json list = Json::array();
    for (const auto& [file, problem] : damages) {
      list.push_back(Json::object({{"file", file}, {"problem", problem}}));
    }
    context.console.print(Json::object({{"path", folder.string()},
                                        {"intact", damages.empty()},
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
        "load a checkpoint that passes `accelerate checkpoint verify`");
  }
  context.console.print(str_cat(
      folder.string(),
      ": intact, ",
      manifest.files.size(),
      manifest.files.size() == 1 ? " file, " : " files, ",
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
  const auto tensors_by_file = tensors_of_checkpoint(folder, manifest);
  if (arguments.has("json")) {
    Json tensors = Json::array();
    for (const auto& [file, entry] : tensors_by_file) {
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
  for (const auto& [file, entry] : tensors_by_file) {
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
  for (const auto& [name, difference] : tensors) {
    list.push_back(
        Json::object({{"tensor", name}, {"difference", difference}}));
  }
  for (const auto& [document, key, difference] : documents) {
    list.push_back(Json::object(
        {{"document", document}, {"key", key}, {"difference", difference}}));
  }
  return list;
}

std::string tables_of(
    const std::vector<TensorDifference>& tensors,
    const std::vector<DocumentDifference>& documents) {
  std::vector<std::string> tables;
  if (!tensors.empty()) {
    Rows rows = {{"tensor", "difference"}};
    for (const auto& [name, difference] : tensors) {
      rows.push_back({name, difference});
    }
    tables.push_back(format_table(rows));
  }
  if (!documents.empty()) {
    Rows rows = {{"document", "key", "difference"}};
    for (const auto& [document, key, difference] : documents) {
      rows.push_back({printable(document), printable(key), difference});
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
        equal ? "the checkpoints are equal" : tables_of(tensors, documents));
  }
  return equal ? 0 : 1;
}

int prune(const ParsedArgs& arguments, CommandContext& context) {
  const auto text = arguments.get("keep");
  if (!text) {
    throw ConfigError(
        "`checkpoint prune` needs `--keep`", "add, for example, `--keep 3`");
  }
  if (text->empty() || text->size() > 9 ||
      text->find_first_not_of("0123456789") != text->npos ||
      std::stoul(*text) == 0) {
    throw ConfigError(str_cat(
        "--keep is `",
        printable(*text),
        "`, but must be a positive whole number"));
  }
  const fs::path folder = checkpoints_folder(folder_argument(arguments, 0));
  const CleanupResult cleanup = remove_abandoned(folder);
  for (const std::string& problem : cleanup.problems) {
    context.console.warning(problem);
  }
  // Only checkpoints with correct checksums are counted for `keep`, so that the
  // last undamaged checkpoint is not removed.
  auto removed =
      prune_checkpoints(folder, {.keep = std::stoul(*text), .checksums = true});
  for (const std::string& name : cleanup.removed) {
    removed.push_back(folder / name);
  }
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

// Rejects options that the action does not use.
void check_arguments(const Action& action, const ParsedArgs& arguments) {
  const std::string name = action.name;
  for (const auto& [option, owner] :
       {std::pair("keep", "prune"), std::pair("config", "export")}) {
    if (arguments.has(option) && name != owner) {
      throw ConfigError(str_cat(
          "`checkpoint ",
          name,
          "` does not take `--",
          option,
          "`; only `checkpoint ",
          owner,
          "` does"));
    }
  }
  if (arguments.positional.size() != action.folders + 1) {
    throw ConfigError(
        str_cat(
            "`checkpoint ",
            name,
            "` takes ",
            action.folders == 1 ? "one folder" : "two folders",
            ", got ",
            arguments.positional.size() - 1),
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
            .help = "prune: keep the N newest complete checkpoints."},
           {.name = "config",
            .value_name = "FOLDER",
            .help = "export: folder with config.json and the tokenizer files."},
           {.name = "json", .help = "Print JSON."}},
      .min_positional = 1,
      .max_positional = 3,
      .first_choices = action_names(),
      .notes =
          "list shows each checkpoint's step, epoch, size and age, and whether "
          "it is complete. verify compares\nevery byte with the checksums in "
          "the manifest. inspect lists the tensors. diff compares tensors "
          "and\ndocuments (optimizer settings, schedulers, loaders, step) and "
          "exits with 1 if any differ. export\nwrites the model as a Hugging "
          "Face folder. prune removes the oldest complete checkpoints.",
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
  const std::string& name = arguments.positional[0];
  for (const Action& action : kActions) {
    if (name == action.name) {
      check_arguments(action, arguments);
      return action.run(arguments, context);
    }
  }
  throw ConfigError(
      str_cat(
          "`checkpoint` has no action `",
          printable(name),
          "`; its actions are ",
          join(action_names(), ", ")),
      did_you_mean(name, action_names()));
}

}  // namespace accelerate
