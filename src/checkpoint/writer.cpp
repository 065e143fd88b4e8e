// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/writer.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <memory>
#include <set>
#include <utility>

#include <ATen/core/Tensor.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "checkpoint/finite_json.h"
#include "checkpoint/yield.h"
#include "checkpoint_directory/checkpoints.h"
#include "checkpoint_directory/checksummed_file.h"
#include "checkpoint_directory/hook_files.h"
#include "tensor_io/safetensors_writer.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

constexpr const char* kError = "error";
constexpr const char* kFiles = "files";
constexpr const char* kLayouts = "layouts";

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

FileChecksum write_tensors(
    const fs::path& path, const TensorMap& tensors, const WriteMode mode) {
  ChecksummedFile file(path, mode);
  write_safetensors(tensors, {{"format", "pt"}}, [&](std::string_view bytes) {
    file.write(bytes);
  });
  return file.finish();
}

// Writes a rank's files; returns their checksums and layouts for the other
// ranks.
Json write_part(
    const fs::path& folder, const Part& part, const WriteMode mode) {
  Json sums = Json::object();
  Json layouts = Json::object();
  for (const auto& [name, layout] : part.layouts) {
    layouts[name] = layout;
  }
  const auto add = [&](const std::string& name, const FileChecksum& sum) {
    sums[name] = Json::object({{"bytes", sum.bytes}, {"xxh3", sum.xxh3}});
  };
  if (!fs::exists(folder)) {
    throw IoError(
        str_cat("this process cannot see ", folder.string()),
        "save to a disk that all processes share, or set "
        "`ProjectConfiguration::save_on_each_node`");
  }
  for (const TensorFile& file : part.tensors) {
    add(file.name, write_tensors(folder / file.name, file.tensors, mode));
  }
  for (const auto& [name, document] : part.documents) {
    add(name,
        write_checksummed(
            folder / name,
            without_infinities(document).dump({.indent = 2}) + "\n"));
  }
  return Json::object({{kFiles, sums}, {kLayouts, layouts}});
}

// Runs `work` and returns its result, or its error as a value that can be sent:
// a rank that threw would leave the other ranks waiting.
template <typename Work>
Json outcome_of(const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    return Json::object({{kError, error.what()}, {"hint", error.hint()}});
  } catch (const std::exception& error) {
    return Json::object({{kError, error.what()}, {"hint", ""}});
  }
}

// Throws if an outcome is an error; the same on every rank.
void check_outcomes(const std::vector<Json>& outcomes, const fs::path& target) {
  std::string problems;
  std::string hint;
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (const Json* error = outcomes[rank].find(kError)) {
      problems += outcomes.size() == 1
                      ? str_cat(": ", error->as_string())
                      : str_cat("\n  rank ", rank, ": ", error->as_string());
      if (hint.empty()) {
        hint = outcomes[rank].at("hint").as_string();
      }
    }
  }
  if (!problems.empty()) {
    throw IoError(
        str_cat("cannot save a checkpoint to ", target.string(), problems),
        hint.empty() ? "free disk space or choose another folder; earlier "
                       "checkpoints are unchanged and training can continue"
                     : hint);
  }
}

std::string layout_in(const Json& outcome, const std::string& name) {
  const Json* layout = outcome.at(kLayouts).find(name);
  return layout == nullptr ? "none" : layout->as_string();
}

// Each rank cuts its part out of its own tensors: the parts only make a whole
// if all ranks have the same tensors.
void check_layouts(const std::vector<Json>& outcomes, const fs::path& target) {
  std::set<std::string> names;
  for (const Json& outcome : outcomes) {
    for (const auto& [name, layout] : outcome.at(kLayouts).as_object()) {
      names.insert(name);
    }
  }
  for (const std::string& name : names) {
    const std::string first = layout_in(outcomes.front(), name);
    for (std::size_t rank = 1; rank < outcomes.size(); ++rank) {
      if (const auto other = layout_in(outcomes[rank], name); other != first) {
        throw StateError(
            str_cat(
                "cannot save a checkpoint to ",
                target.string(),
                ": processes have different tensors in `",
                name,
                "`: rank 0 has ",
                first,
                ", rank ",
                rank,
                " has ",
                other),
            "prepare the same models and optimizers with the same trainable "
            "parameters on every process");
      }
    }
  }
}

// The part of the manifest that is known before anything is written.
Manifest run_info(const CheckpointContents& contents) {
  Manifest manifest;
  manifest.step = contents.step;
  manifest.epoch = contents.epoch;
  manifest.world_size = contents.num_processes;
  return manifest;
}

void add_files(Manifest& manifest, const std::vector<Json>& sums) {
  manifest.created = utc_now();
  for (const Json& part : sums) {
    for (const auto& [name, sum] : part.at(kFiles).as_object()) {
      manifest.files[name] = {
          static_cast<std::uint64_t>(sum.at("bytes").as_integer()),
          sum.at("xxh3").as_string()};
    }
  }
}

void warn(const std::string& text) {
  std::cerr << str_cat("warning: ", text, "\n") << std::flush;
}

void remove_leftovers(const fs::path& parent) {
  if (fs::exists(parent)) {
    for (const std::string& problem : remove_abandoned(parent).problems) {
      warn(problem);
    }
  }
}

// Renames the folder to its final name; for numbered checkpoints, the next free
// one.
SaveResult commit(
    StagedDirectory& folder, Manifest& manifest, const Destination& to) {
  manifest.iteration = to.iteration;
  if (!to.numbered) {
    return {folder.commit(manifest, to.name, IfExists::replace), to.iteration};
  }
  for (;; ++manifest.iteration) {
    const std::string name = str_cat("checkpoint_", manifest.iteration);
    if (fs::exists(to.parent / name)) {
      continue;
    }
    try {
      return {
          folder.commit(manifest, name, IfExists::refuse), manifest.iteration};
    } catch (const StateError&) {
      continue;  // Another job has just taken this number.
    }
  }
}

// The new checkpoint is already safe, so a failure to remove an old one is only
// a warning.
void prune(const Destination& to, const fs::path& newest) {
  try {
    if (to.keep) {
      prune_checkpoints(to.parent, {.keep = *to.keep, .newest = newest});
    }
  } catch (const std::exception& error) {
    warn(error.what());
  }
}

// Adds the checkpoint to an error from the process group.
template <typename GroupError>
[[noreturn]] void rethrow_with_target(
    const GroupError& error, const Destination& to) {
  throw GroupError(
      str_cat(
          "cannot save a checkpoint to ",
          (to.parent / to.name).string(),
          ": ",
          error.what()),
      error.hint());
}

}  // namespace

CheckpointWriter::CheckpointWriter(
    WritingGroups groups,
    std::shared_ptr<Staging> staging,
    const std::chrono::milliseconds warn_after)
    : group_(std::move(groups.writers)),
      all_(std::move(groups.all)),
      staging_(std::move(staging)),
      warn_after_(warn_after) {
}

CheckpointWriter::~CheckpointWriter() {
  try {
    wait();
  } catch (const std::exception& error) {
    std::cerr << str_cat("error: ", error.what(), "\n") << std::flush;
  }
}

SaveResult CheckpointWriter::save(
    const CheckpointContents& contents, const Destination& to) {
  wait();
  return write(
      part_of(contents, group_.rank(), group_.size()),
      to,
      run_info(contents),
      WriteMode::page_cache);
}

void CheckpointWriter::save_in_background(
    const CheckpointContents& contents, const Destination& to) {
  wait();
  Part part = part_of(contents, group_.rank(), group_.size());
  staging_->copy_in(part);
  pending_path_ = to.parent / to.name;
  pending_save_ = std::async(
      std::launch::async,
      [this, part = std::move(part), to, run = run_info(contents)] {
        yield_to_training();
        return write(part, to, run, WriteMode::direct);
      });
}

void CheckpointWriter::choose_number(Destination& to) {
  wait();
  if (!to.numbered) {
    return;
  }
  const auto chosen = all_.gather_object({outcome_of([&] {
    return group_.rank() == 0
               ? Json::object({{"next", next_checkpoint_number(to.parent)}})
               : Json::object();
  })});
  check_outcomes(chosen, to.parent);
  for (const Json& outcome : chosen) {
    if (const Json* next = outcome.find("next")) {
      to.iteration = std::max(to.iteration, next->as_integer());
    }
  }
  to.name = str_cat("checkpoint_", to.iteration);
}

void CheckpointWriter::prepare(const CheckpointContents& contents) {
  wait();
  staging_->prepare(part_of(contents, group_.rank(), group_.size()));
}

// A disk may be slow or never respond; the user should learn what training
// waits for.
std::optional<SaveResult> CheckpointWriter::wait() {
  if (!pending_save_.valid()) {
    return std::nullopt;
  }
  if (pending_save_.wait_for(warn_after_) == std::future_status::timeout) {
    warn(str_cat(
        "training has waited ",
        std::chrono::duration<double>(warn_after_).count(),
        " s for the checkpoint ",
        pending_path_.string(),
        "; the disk may be slow or disconnected"));
  }
  return pending_save_.get();
}

fs::path CheckpointWriter::open_for_hooks(const Destination& to) {
  wait();
  return open_folder(to, Contents::with_hooks) / kHooksDirectory;
}

void CheckpointWriter::discard_open_folder() {
  folder_.reset();
  folder_path_.clear();
}

fs::path CheckpointWriter::open_folder(
    const Destination& to, const Contents contents) {
  if (!folder_path_.empty()) {
    return folder_path_;
  }
  Json opened = outcome_of([&] {
    if (group_.rank() != 0) {
      return Json::object();
    }
    remove_leftovers(to.parent);
    folder_ = std::make_unique<StagedDirectory>(to.parent);
    if (contents == Contents::with_hooks) {
      fs::create_directory(folder_->path() / kHooksDirectory);
    }
    return Json::object({{"path", folder_->path().string()}});
  });
  check_outcomes(all_.gather_object({opened}), to.parent / to.name);
  std::vector<Json> path{std::move(opened)};
  group_.broadcast_object_list(path);
  folder_path_ = path.front().at("path").as_string();
  return folder_path_;
}

// 1. Rank 0 creates a folder with a temporary name.
// 2. Every rank writes its part.
// 3. Rank 0 commits and broadcasts the result.
SaveResult CheckpointWriter::write(
    const Part& part,
    const Destination& to,
    Manifest manifest,
    const WriteMode mode) {
  try {
    return write_and_commit(part, to, std::move(manifest), mode);
  } catch (const DistributedError& error) {
    rethrow_with_target(error, to);
  } catch (const MismatchError& error) {
    rethrow_with_target(error, to);
  }
}

SaveResult CheckpointWriter::write_and_commit(
    const Part& part,
    const Destination& to,
    Manifest manifest,
    const WriteMode mode) {
  const bool is_main = group_.rank() == 0;
  const fs::path target = to.parent / to.name;
  const fs::path path = open_folder(to, Contents::tensors_only);
  // Whether this succeeds or fails, the next save needs a new folder.
  folder_path_.clear();
  const std::unique_ptr<StagedDirectory> folder = std::move(folder_);
  const Json written = outcome_of([&] { return write_part(path, part, mode); });
  const std::vector<Json> all = all_.gather_object({written});
  check_outcomes(all, target);
  check_layouts(all, target);
  const std::vector<Json> parts = group_.gather_object({written});

  Json committed = outcome_of([&] {
    if (!is_main) {
      return Json::object();
    }
    add_files(manifest, parts);
    manifest.hook_files = collect_hook_files(path);
    const SaveResult saved = commit(*folder, manifest, to);
    return Json::object(
        {{"path", saved.path.string()}, {"iteration", saved.iteration}});
  });
  check_outcomes(all_.gather_object({committed}), target);
  std::vector<Json> saved{std::move(committed)};
  group_.broadcast_object_list(saved);
  const fs::path saved_at = saved.front().at("path").as_string();
  if (is_main) {
    prune(to, saved_at);
  }
  return {saved_at, saved.front().at("iteration").as_integer()};
}

}  // namespace accelerate
