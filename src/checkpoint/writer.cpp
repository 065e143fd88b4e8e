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
#include "folders/checkpoints.h"
#include "folders/hook_files.h"
#include "folders/summed_file.h"
#include "tensor_io/safetensors_writer.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

constexpr const char* kError = "error";
constexpr const char* kFiles = "files";
constexpr const char* kForms = "forms";

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

FileSum write_tensors(
    const fs::path& path, const TensorMap& tensors, const WriteVia via) {
  SummedFile file(path, via);
  write_safetensors(tensors, {{"format", "pt"}}, [&](std::string_view bytes) {
    file.write(bytes);
  });
  return file.finish();
}

// Writes a rank's files; returns what the other ranks have to know of them.
Json write_part(const fs::path& folder, const Part& part, const WriteVia via) {
  Json sums = Json::object();
  Json forms = Json::object();
  for (const auto& [name, form] : part.forms) {
    forms[name] = form;
  }
  const auto add = [&](const std::string& name, const FileSum& sum) {
    sums[name] = Json::object({{"bytes", sum.bytes}, {"xxh3", sum.xxh3}});
  };
  if (!fs::exists(folder)) {
    throw IoError(
        str_cat("this process does not see ", folder.string()),
        "save to a disk that all processes share, or set "
        "`ProjectConfiguration::save_on_each_node`");
  }
  for (const TensorFile& file : part.tensors) {
    add(file.name, write_tensors(folder / file.name, file.tensors, via));
  }
  for (const auto& [name, document] : part.documents) {
    add(name,
        write_summed(
            folder / name,
            without_infinities(document).dump({.indent = 2}) + "\n"));
  }
  return Json::object({{kFiles, sums}, {kForms, forms}});
}

// Runs `work` and returns its result, or what went wrong as a value that can
// be sent: a rank that threw would leave the others waiting.
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
        str_cat("no checkpoint at ", target.string(), problems),
        hint.empty() ? "earlier checkpoints are untouched and training can go "
                       "on; make room or choose another folder"
                     : hint);
  }
}

std::string form_in(const Json& outcome, const std::string& name) {
  const Json* form = outcome.at(kForms).find(name);
  return form == nullptr ? "none" : form->as_string();
}

// Each rank has cut its part out of what it holds itself: the parts are a whole
// if all hold the same.
void check_forms(const std::vector<Json>& outcomes, const fs::path& target) {
  std::set<std::string> names;
  for (const Json& outcome : outcomes) {
    for (const auto& [name, form] : outcome.at(kForms).as_object()) {
      names.insert(name);
    }
  }
  for (const std::string& name : names) {
    const std::string first = form_in(outcomes.front(), name);
    for (std::size_t rank = 1; rank < outcomes.size(); ++rank) {
      if (const auto theirs = form_in(outcomes[rank], name); theirs != first) {
        throw StateError(
            str_cat(
                "no checkpoint at ",
                target.string(),
                ": the processes hold different tensors in `",
                name,
                "`: rank 0 ",
                first,
                ", rank ",
                rank,
                " ",
                theirs),
            "give every process the same models and optimizers, trained on the "
            "same parameters");
      }
    }
  }
}

// What is known before anything is written.
Manifest run_of(const CheckpointContents& contents) {
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

void tidy(const fs::path& parent) {
  if (fs::exists(parent)) {
    for (const std::string& problem : remove_abandoned(parent).problems) {
      warn(problem);
    }
  }
}

// Gives the folder its name; with numbers, the next one that is free.
Saved commit(StagedFolder& folder, Manifest& manifest, const Destination& to) {
  manifest.iteration = to.iteration;
  if (!to.numbered) {
    return {folder.commit(manifest, to.name, Existing::replace), to.iteration};
  }
  for (;; ++manifest.iteration) {
    const std::string name = str_cat("checkpoint_", manifest.iteration);
    if (fs::exists(to.parent / name)) {
      continue;
    }
    try {
      return {
          folder.commit(manifest, name, Existing::refuse), manifest.iteration};
    } catch (const StateError&) {
      continue;  // Another job took it in this moment.
    }
  }
}

// The new checkpoint is safe by now: what cannot be removed is worth a word,
// not an error.
void prune(const Destination& to, const fs::path& newest) {
  try {
    if (to.keep) {
      prune_checkpoints(to.parent, {.keep = *to.keep, .newest = newest});
    }
  } catch (const std::exception& error) {
    warn(error.what());
  }
}

}  // namespace

CheckpointWriter::CheckpointWriter(
    WritingGroups groups,
    std::shared_ptr<Staging> staging,
    const std::chrono::milliseconds patience)
    : group_(std::move(groups.together)),
      all_(std::move(groups.all)),
      staging_(std::move(staging)),
      patience_(patience) {
}

CheckpointWriter::~CheckpointWriter() {
  try {
    wait();
  } catch (const std::exception& error) {
    std::cerr << str_cat("error: ", error.what(), "\n") << std::flush;
  }
}

Saved CheckpointWriter::save(
    const CheckpointContents& contents, const Destination& to) {
  wait();
  return write(
      part_of(contents, group_.rank(), group_.size()),
      to,
      run_of(contents),
      WriteVia::cache);
}

void CheckpointWriter::save_in_background(
    const CheckpointContents& contents, const Destination& to) {
  wait();
  Part part = part_of(contents, group_.rank(), group_.size());
  staging_->take(part);
  under_way_at_ = to.parent / to.name;
  under_way_ = std::async(
      std::launch::async,
      [this, part = std::move(part), to, run = run_of(contents)] {
        yield_to_training();
        return write(part, to, run, WriteVia::disk);
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
  for (const Json& one : chosen) {
    if (const Json* next = one.find("next")) {
      to.iteration = std::max(to.iteration, next->as_integer());
    }
  }
  to.name = str_cat("checkpoint_", to.iteration);
}

void CheckpointWriter::prepare(const CheckpointContents& contents) {
  wait();
  staging_->prepare(part_of(contents, group_.rank(), group_.size()));
}

// A disk may take its time, and may never answer: then somebody should know
// whom training waits for.
std::optional<Saved> CheckpointWriter::wait() {
  if (!under_way_.valid()) {
    return std::nullopt;
  }
  if (under_way_.wait_for(patience_) == std::future_status::timeout) {
    warn(str_cat(
        "training waits for the checkpoint ",
        under_way_at_.string(),
        ": it has been waiting for ",
        std::chrono::duration<double>(patience_).count(),
        " s; is the disk slow or gone?"));
  }
  return under_way_.get();
}

fs::path CheckpointWriter::open_for_hooks(const Destination& to) {
  wait();
  return open_folder(to, Contents::with_hooks) / kHooksFolder;
}

void CheckpointWriter::discard_open() {
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
    tidy(to.parent);
    folder_ = std::make_unique<StagedFolder>(to.parent);
    if (contents == Contents::with_hooks) {
      fs::create_directory(folder_->path() / kHooksFolder);
    }
    return Json::object({{"path", folder_->path().string()}});
  });
  check_outcomes(all_.gather_object({opened}), to.parent / to.name);
  std::vector<Json> path{std::move(opened)};
  group_.broadcast_object_list(path);
  folder_path_ = path.front().at("path").as_string();
  return folder_path_;
}

// 1. Rank 0 makes a folder under a temporary name. 2. Everybody writes.
// 3. Rank 0 commits, and tells how it went.
Saved CheckpointWriter::write(
    const Part& part,
    const Destination& to,
    Manifest manifest,
    const WriteVia via) {
  try {
    return write_and_commit(part, to, std::move(manifest), via);
  } catch (const DistributedError& error) {
    throw DistributedError(
        str_cat(
            "no checkpoint at ",
            (to.parent / to.name).string(),
            ": ",
            error.what()),
        error.hint());
  }
}

Saved CheckpointWriter::write_and_commit(
    const Part& part,
    const Destination& to,
    Manifest manifest,
    const WriteVia via) {
  const bool is_main = group_.rank() == 0;
  const fs::path target = to.parent / to.name;
  const fs::path path = open_folder(to, Contents::ours);
  // Whatever comes of it, the next save has a folder of its own.
  folder_path_.clear();
  const std::unique_ptr<StagedFolder> folder = std::move(folder_);
  const Json written = outcome_of([&] { return write_part(path, part, via); });
  const std::vector<Json> all = all_.gather_object({written});
  check_outcomes(all, target);
  check_forms(all, target);
  const std::vector<Json> parts = group_.gather_object({written});

  Json ended = outcome_of([&] {
    if (!is_main) {
      return Json::object();
    }
    add_files(manifest, parts);
    manifest.hook_files = take_hook_files(path);
    const Saved saved = commit(*folder, manifest, to);
    return Json::object(
        {{"path", saved.path.string()}, {"iteration", saved.iteration}});
  });
  check_outcomes(all_.gather_object({ended}), target);
  std::vector<Json> saved{std::move(ended)};
  group_.broadcast_object_list(saved);
  const fs::path saved_at = saved.front().at("path").as_string();
  if (is_main) {
    prune(to, saved_at);
  }
  return {saved_at, saved.front().at("iteration").as_integer()};
}

}  // namespace accelerate
