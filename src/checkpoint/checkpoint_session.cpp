// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint_session.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "accelerate/error.h"
#include "base/available_memory.h"
#include "base/message.h"
#include "base/str_cat.h"
#include "checkpoint/parts.h"
#include "checkpoint/reader.h"
#include "checkpoint/restore.h"
#include "checkpoint/save_clock.h"
#include "checkpoint/writing_groups.h"
#include "checkpoint_directory/checkpoints.h"
#include "comm/run_collectively.h"
#include "training/preemption.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

// Returns the checkpoints that `load_state()` may load, newest first. Rank 0
// lists them; each rank then looks for the same names in its own folder.
std::vector<fs::path> candidates(
    const fs::path& folder, const Group& group, bool required) {
  const RankOutcomes listed = try_collectively(group, [&] {
    Json names = Json::array();
    if (group.rank() == 0 && (required || fs::exists(folder))) {
      for (const CheckpointEntry& entry : list_checkpoints(folder)) {
        names.push_back(entry.path.filename().string());
      }
    }
    return names;
  });
  const RankOutcome& main_rank = listed.ranks.front();
  if (!main_rank.error.empty()) {
    throw IoError(
        main_rank.error,
        "save a checkpoint first, or pass the folder of an existing one");
  }
  std::vector<fs::path> paths;
  for (const Json& name : main_rank.value.as_array()) {
    paths.insert(paths.begin(), folder / name.as_string());
  }
  return paths;
}

bool any_rank(const Group& group, const bool value) {
  return std::ranges::any_of(
      group.gather_object({Json(value)}),
      [](const Json& gathered) { return gathered.as_bool(); });
}

bool are_same(
    const std::vector<TensorMap>& left, const std::vector<TensorMap>& right) {
  return std::ranges::equal(left, right, [](const auto& x, const auto& y) {
    return std::ranges::equal(x, y, [](const auto& a, const auto& b) {
      return a.first == b.first && a.second.is_same(b.second);
    });
  });
}

// A writer whose process group has failed is unusable; the next save creates
// another writer. Other errors, such as `MismatchError`, leave the process
// group and the writer usable.
template <typename Work>
auto with_usable_writer(CheckpointSession& session, const Work& work) {
  try {
    return work(session.writer());
  } catch (const DistributedError&) {
    session.close_writer();
    throw;
  }
}

}  // namespace

CheckpointSession::CheckpointSession(
    const RunParts& run, const AcceleratorOptions& options)
    : run_(run), run_state_(run, registered_), folders_(options) {
}

CheckpointWriter& CheckpointSession::writer() {
  if (!writer_) {
    writer_ = std::make_unique<CheckpointWriter>(
        make_writing_groups(
            run_.state, folders_.configuration().save_on_each_node),
        staging_);
  }
  return *writer_;
}

fs::path CheckpointSession::save(
    const fs::path& folder, const SaveStateOptions& options) {
  wait();
  Destination to = folders_.destination(folder);
  with_usable_writer(
      *this, [&](CheckpointWriter& writer) { writer.choose_number(to); });
  const CheckpointContents contents = collect(to);
  if (!options.blocking) {
    writer().save_in_background(contents, to);
    // The number advances now, although the save is still pending.
    folders_.record_save({to.parent / to.name, to.iteration});
    return to.parent / to.name;
  }
  const SaveResult saved = with_usable_writer(
      *this,
      [&](CheckpointWriter& writer) { return writer.save(contents, to); });
  folders_.record_save(saved);
  return saved.path;
}

// Hooks and objects are user code, which may throw on only one process.
CheckpointContents CheckpointSession::collect(const Destination& to) {
  const Group& group = run_.state.group();
  const std::string context =
      str_cat("cannot save a checkpoint to ", (to.parent / to.name).string());
  CheckpointContents contents;
  run_collectively(group, context, [&] { contents = run_state_.collect(); });
  if (run_.training.regions().trains_locally() && group.size() > 1) {
    write_from_main_rank(contents);
  }
  if (any_rank(group, !registered_.save_hooks.empty())) {
    run_save_hooks(contents, to, context);
  }
  return contents;
}

void CheckpointSession::write_from_main_rank(CheckpointContents& contents) {
  contents.write_from_main_rank();
  if (!std::exchange(warned_unsynchronized_, true) &&
      run_.state.is_main_process()) {
    print_warning(
        "a checkpoint saved inside LocalSGD contains only the weights and "
        "optimizer states of process 0; finish LocalSGD first to save the "
        "average over all processes");
  }
}

// Puts the weights into `contents` after the hooks have changed them.
void CheckpointSession::run_save_hooks(
    CheckpointContents& contents,
    const Destination& to,
    const std::string& context) {
  const Group& group = run_.state.group();
  const fs::path folder = with_usable_writer(
      *this,
      [&](CheckpointWriter& writer) { return writer.open_for_hooks(to); });
  const std::vector<TensorMap> before = run_state_.model_weights(contents);
  std::vector<TensorMap> weights = before;
  try {
    run_collectively(group, context + ": a save hook threw", [&] {
      registered_.save_hooks.run(weights, folder);
    });
  } catch (...) {
    writer().discard_open_folder();
    throw;
  }
  if (any_rank(group, !are_same(before, weights))) {
    run_state_.take_hooked_weights(contents, std::move(weights));
  }
}

void CheckpointSession::wait() {
  if (!has_writer()) {
    return;
  }
  const auto saved = with_usable_writer(
      *this, [](CheckpointWriter& writer) { return writer.wait(); });
  if (saved) {
    folders_.record_save(*saved);
  }
}

LoadStateReport CheckpointSession::load(
    const fs::path& folder, const LoadStateOptions& options) {
  wait();
  const bool share = !folders_.configuration().save_on_each_node;
  return restore_from(
      load_checkpoint(folder, run_.state.group(), share), folder, options);
}

LoadStateReport CheckpointSession::load_newest(
    const LoadStateOptions& options) {
  wait();
  const Group& group = run_.state.group();
  const fs::path folder = folders_.checkpoints();
  const bool share = !folders_.configuration().save_on_each_node;
  std::vector<std::string> passed_over;
  for (const fs::path& path : candidates(folder, group, options.required)) {
    std::optional<LoadedCheckpoint> loaded;
    try {
      loaded = load_checkpoint(path, group, share);
    } catch (const DistributedError&) {
      throw;
    } catch (const MismatchError&) {
      throw;
    } catch (const RankError&) {
      throw;
    } catch (const OutOfMemoryError&) {
      throw;  // An older checkpoint has the same size.
    } catch (const Error& error) {
      passed_over.emplace_back(error.what());
      if (run_.state.is_main_process()) {
        print_warning(str_cat("checkpoint skipped: ", error.what()));
      }
      continue;
    }
    LoadStateReport report = restore_from(std::move(*loaded), path, options);
    report.passed_over = std::move(passed_over);
    return report;
  }
  if (!options.required && passed_over.empty()) {
    return {};
  }
  throw IoError(
      str_cat(
          "no complete checkpoint in ",
          folder.string(),
          passed_over.empty() ? "" : "; skipped:\n  ",
          passed_over.empty() ? "" : passed_over.front()),
      "to start from scratch, pass `required = false` or do not call "
      "load_state; otherwise, pass the folder of a checkpoint to load_state");
}

LoadStateReport CheckpointSession::restore_from(
    LoadedCheckpoint loaded,
    const fs::path& path,
    const LoadStateOptions& options) {
  const std::int64_t iteration = loaded.iteration;
  LoadStateReport report =
      restore(run_, registered_, std::move(loaded), {path, options.strict});
  folders_.record_load(iteration);
  return report;
}

std::function<bool()> CheckpointSession::save_every(
    const SaveEveryOptions& options) {
  const SaveClock new_clock(options);
  // Throws now, not at the first save, if there is no folder.
  static_cast<void>(folders_.checkpoints());
  return [this,
          options,
          clock = new_clock,
          stop_handled = false,
          prepared = options.blocking]() mutable {
    const Group& group = run_.state.group();
    const bool due = clock.is_due(group);
    const bool stop =
        preemption_requested(group) && !std::exchange(stop_handled, true);
    if (due || stop) {
      // A process that must stop could be killed before a background save ends.
      save({}, {.blocking = options.blocking || stop});
      clock.restart();
    } else if (!prepared && !memory_reserved_) {
      // Optimizers have a state only after the first step.
      writer().prepare(run_state_.collect_models());
    }
    prepared = true;
    return due || stop;
  };
}

// Only runs with numbered checkpoints, which all processes write together, are
// likely to save in the background. From the second update on, optimizers have
// a state. Pinned memory cannot be returned, so with a GPU it is allocated at
// the first save.
void CheckpointSession::reserve_memory() {
  const ProjectConfiguration& project = folders_.configuration();
  if (memory_reserved_ || writer_ || !project.automatic_checkpoint_naming ||
      project.save_on_each_node || run_.training.updates() < 2 ||
      !run_.state.device().is_cpu()) {
    return;
  }
  memory_reserved_ = true;
  try {
    const CheckpointContents contents = run_state_.collect_large();
    const Part part =
        part_of(contents, contents.process_index, contents.num_processes);
    // Reserves memory only if plenty is free, because perhaps no save will run
    // in the background.
    constexpr std::uint64_t kMinFreeRatio = 4;
    if (part.bytes() * kMinFreeRatio <= available_bytes()) {
      staging_->prepare(part);
    }
  } catch (const Error&) {
    // Ignores the error: a later save, if there is one, reports it.
  }
}

}  // namespace accelerate
