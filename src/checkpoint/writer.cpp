// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/writer.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <utility>

#include <ATen/core/Tensor.h>

#include "accelerate/error.h"
#include "base/message.h"
#include "base/str_cat.h"
#include "checkpoint/assign_ranges.h"
#include "checkpoint/finite_json.h"
#include "checkpoint/layouts.h"
#include "checkpoint/yield.h"
#include "checkpoint_directory/checkpoints.h"
#include "checkpoint_directory/checksummed_file.h"
#include "checkpoint_directory/hook_files.h"
#include "comm/run_collectively.h"
#include "tensor_io/safetensors_writer.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

// Keys in a rank's report about its part.
constexpr const char* kFiles = "files";
constexpr const char* kLayouts = "layouts";
constexpr const char* kRefused = "refused";
constexpr const char* kHint = "hint";

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
  const auto add = [&](const std::string& name, const FileChecksum& sum) {
    sums[name] = Json::object({{"bytes", sum.bytes}, {"xxh3", sum.xxh3}});
  };
  if (!fs::exists(folder)) {
    throw IoError(
        str_cat("this process cannot find ", folder.string()),
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
  return Json::object({{kFiles, sums}, {kLayouts, layout_checksums(part)}});
}

// Writes a rank's files. If the ranges of the ranks do not fit together,
// reports the reason instead.
Json assign_and_write(
    const fs::path& folder,
    const Part& part,
    const std::vector<Json>& tables,
    const int rank,
    const WriteMode mode) {
  Part assigned;
  try {
    assigned = assign_ranges(part, tables, rank);
  } catch (const StateError& error) {
    return Json::object({{kRefused, error.what()}, {kHint, error.hint()}});
  }
  return write_part(folder, assigned, mode);
}

// Returns the report of each rank. If a rank failed, throws the same error on
// every rank.
std::vector<Json> reports_of(
    const RankOutcomes& outcomes, const fs::path& target) {
  if (!outcomes.all_succeeded()) {
    const std::string hint = outcomes.first_hint();
    throw IoError(
        str_cat(
            "cannot save a checkpoint to ",
            target.string(),
            outcomes.ranks.size() == 1
                ? str_cat(": ", outcomes.ranks.front().error)
                : outcomes.table()),
        hint.empty() ? "free disk space or choose another folder; earlier "
                       "checkpoints are unchanged and training can continue"
                     : hint);
  }
  std::vector<Json> reports;
  for (const RankOutcome& outcome : outcomes.ranks) {
    reports.push_back(outcome.value);
  }
  return reports;
}

// If the ranges of the ranks do not fit together, throws the same error on
// every rank.
void check_ranges(const std::vector<Json>& reports, const fs::path& target) {
  for (const Json& report : reports) {
    if (const Json* refused = report.find(kRefused)) {
      throw StateError(
          str_cat(
              "cannot save a checkpoint to ",
              target.string(),
              ": ",
              refused->as_string()),
          report.at(kHint).as_string());
    }
  }
}

std::vector<Json> values_of(
    const std::vector<Json>& reports, const char* const key) {
  std::vector<Json> values;
  for (const Json& report : reports) {
    values.push_back(report.at(key));
  }
  return values;
}

// The part of the manifest that is known before anything is written.
Manifest run_info(const CheckpointContents& contents) {
  Manifest manifest;
  manifest.step = contents.step;
  manifest.epoch = contents.epoch;
  manifest.world_size = contents.num_processes;
  return manifest;
}

void add_files(Manifest& manifest, const std::vector<Json>& reports) {
  manifest.created = utc_now();
  for (const Json& report : reports) {
    for (const auto& [name, sum] : report.at(kFiles).as_object()) {
      manifest.files[name] = {
          static_cast<std::uint64_t>(sum.at("bytes").as_integer()),
          sum.at("xxh3").as_string()};
    }
  }
}

void remove_leftovers(const fs::path& parent) {
  if (fs::exists(parent)) {
    for (const std::string& problem : remove_abandoned(parent).problems) {
      print_warning(problem);
    }
  }
}

// Renames the folder to its final name. For numbered checkpoints, this is the
// next free name.
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
      continue;  // Another job has just used this number.
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
    print_warning(error.what());
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
  print_errors_of([this] { wait(); });
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
  const RankOutcomes chosen = try_collectively(all_, [&] {
    return group_.rank() == 0
               ? Json::object({{"next", next_checkpoint_number(to.parent)}})
               : Json::object();
  });
  for (const Json& report : reports_of(chosen, to.parent)) {
    if (const Json* next = report.find("next")) {
      to.iteration = std::max(to.iteration, next->as_integer());
    }
  }
  to.name = str_cat("checkpoint_", to.iteration);
}

void CheckpointWriter::prepare(const CheckpointContents& contents) {
  wait();
  staging_->prepare(part_of(contents, group_.rank(), group_.size()));
}

// A disk may be slow or never respond, so a warning says what training is
// waiting for.
std::optional<SaveResult> CheckpointWriter::wait() {
  if (!pending_save_.valid()) {
    return std::nullopt;
  }
  if (pending_save_.wait_for(warn_after_) == std::future_status::timeout) {
    print_warning(str_cat(
        "training has waited ",
        std::chrono::duration<double>(warn_after_).count(),
        " s for the checkpoint ",
        pending_path_.string(),
        " to be written; the disk may be slow or disconnected"));
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
  const RankOutcomes opened = try_collectively(all_, [&] {
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
  folder_path_ = from_main_rank(reports_of(opened, to.parent / to.name))
                     .at("path")
                     .as_string();
  return folder_path_;
}

Json CheckpointWriter::from_main_rank(const std::vector<Json>& reports) {
  std::vector<Json> report{reports[static_cast<std::size_t>(all_.rank())]};
  group_.broadcast_object_list(report);
  return report.front();
}

// 1. Rank 0 creates a folder with a temporary name.
// 2. The ranks exchange the lists of their ranges.
// 3. Every rank writes its part.
// 4. Rank 0 commits and broadcasts the result.
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
  // The next save needs a new folder, even if this save fails.
  folder_path_.clear();
  const std::unique_ptr<StagedDirectory> folder = std::move(folder_);
  const std::vector<Json> tables = group_.gather_object({range_table(part)});
  const RankOutcomes written = try_collectively(all_, [&] {
    return assign_and_write(path, part, tables, group_.rank(), mode);
  });
  const std::vector<Json> all = reports_of(written, target);
  check_ranges(all, target);
  check_layouts(values_of(all, kLayouts), part, all_, target);
  const std::vector<Json> parts =
      group_.size() == all_.size()
          ? all
          : group_.gather_object({all[static_cast<std::size_t>(all_.rank())]});

  const RankOutcomes committed = try_collectively(all_, [&] {
    if (!is_main) {
      return Json::object();
    }
    add_files(manifest, parts);
    manifest.hook_files = collect_hook_files(path);
    const SaveResult saved = commit(*folder, manifest, to);
    return Json::object(
        {{"path", saved.path.string()}, {"iteration", saved.iteration}});
  });
  const Json saved = from_main_rank(reports_of(committed, target));
  const fs::path saved_at = saved.at("path").as_string();
  if (is_main) {
    prune(to, saved_at);
  }
  return {saved_at, saved.at("iteration").as_integer()};
}

}  // namespace accelerate
