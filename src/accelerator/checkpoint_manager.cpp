// SPDX-License-Identifier: Apache-2.0
#include "accelerator/checkpoint_manager.h"

#include <algorithm>
#include <iostream>
#include <numeric>
#include <utility>

#include "accelerate/error.h"
#include "accelerator/accelerator_impl.h"
#include "accelerator/run_collectively.h"
#include "base/available_memory.h"
#include "base/str_cat.h"
#include "checkpoint/parts.h"
#include "checkpoint/reader.h"
#include "checkpoint_directory/checkpoints.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

ProjectConfiguration chosen_project(const AcceleratorOptions& options) {
  ProjectConfiguration project =
      options.project_config.value_or(ProjectConfiguration{});
  if (options.project_dir) {
    if (!project.project_dir.empty() &&
        project.project_dir != *options.project_dir) {
      throw ArgumentError(
          str_cat(
              "`project_dir` is ",
              options.project_dir->string(),
              ", but `project_config.project_dir` is ",
              project.project_dir.string()),
          "set `project_dir` only in `project_config`");
    }
    project.project_dir = *options.project_dir;
  }
  if (project.logging_dir.empty()) {
    project.logging_dir = project.project_dir;
  }
  return project;
}

void check_project(const ProjectConfiguration& project) {
  if (project.iteration < 0) {
    throw ArgumentError(
        str_cat("`ProjectConfiguration::iteration` is ", project.iteration),
        "pass 0 or more");
  }
  if (project.total_limit && *project.total_limit < 1) {
    throw ArgumentError(
        str_cat(
            "`ProjectConfiguration::total_limit` is ", *project.total_limit),
        "pass 1 or more, or omit it to keep all checkpoints");
  }
  if (project.total_limit && !project.automatic_checkpoint_naming) {
    throw ArgumentError(
        "`ProjectConfiguration::total_limit` is set without "
        "`automatic_checkpoint_naming`",
        "set `automatic_checkpoint_naming`: `total_limit` uses the numbers in "
        "the checkpoint names to decide which ones to delete");
  }
  if (project.automatic_checkpoint_naming && project.project_dir.empty()) {
    throw ArgumentError(
        "`ProjectConfiguration::automatic_checkpoint_naming` is set without "
        "`project_dir`",
        "set `project_dir` to the folder for checkpoints");
  }
}

// Creates process groups for the writer alone.
WritingGroups writers_of(const PartialState& state, const bool on_each_node) {
  std::vector<int> ranks;
  const Group& world = state.group();
  if (world.size() == 1) {
    return Group();
  }
  std::vector<Json> nodes = world.gather_object(
      {Json(on_each_node ? state.node_index() : std::int64_t{0})});
  std::optional<Group> node_group;
  std::vector<std::int64_t> seen;
  for (const Json& node : nodes) {
    const auto index = node.as_integer();
    if (std::find(seen.begin(), seen.end(), index) != seen.end()) {
      continue;
    }
    seen.push_back(index);
    ranks.clear();
    for (int rank = 0; rank < world.size(); ++rank) {
      if (nodes[static_cast<std::size_t>(rank)].as_integer() == index) {
        ranks.push_back(rank);
      }
    }
    if (auto group = world.subgroup(ranks)) {
      node_group = std::move(group);
    }
  }
  if (seen.size() == 1) {
    return *node_group;
  }
  ranks.resize(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return {*node_group, *world.subgroup(ranks)};
}

// The checkpoints that `load_state()` may load, newest first, as rank 0 sees
// them; each rank looks for them in its own folder.
std::vector<fs::path> candidates(const fs::path& folder, const Group& group) {
  std::vector<Json> paths;
  std::vector<Json> problem{Json("")};
  if (group.rank() == 0) {
    try {
      for (const CheckpointEntry& entry : list_checkpoints(folder)) {
        paths.insert(paths.begin(), Json(entry.path.filename().string()));
      }
    } catch (const std::exception& error) {
      problem = {Json(error.what())};
    }
  }
  group.broadcast_object_list(problem);
  if (!problem.front().as_string().empty()) {
    throw IoError(
        problem.front().as_string(),
        "save a checkpoint first, or pass the folder of an existing one");
  }
  group.broadcast_object_list(paths);
  std::vector<fs::path> result;
  for (const Json& path : paths) {
    result.push_back(folder / path.as_string());
  }
  return result;
}

Region hook_region(
    const std::shared_ptr<std::list<Accelerator::StateHook>>& hooks,
    Accelerator::StateHook hook) {
  const auto position = hooks->insert(hooks->end(), std::move(hook));
  return Region([weak = std::weak_ptr(hooks), position] {
    if (const auto shared = weak.lock()) {
      shared->erase(position);
    }
  });
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
// another writer.
template <typename Work>
auto with_usable_writer(CheckpointManager& checkpoints, const Work& work) {
  try {
    return work();
  } catch (const DistributedError&) {
    checkpoints.close_writer();
    throw;
  }
}

}  // namespace

CheckpointManager::CheckpointManager(const AcceleratorOptions& options)
    : project(chosen_project(options)) {
  check_project(project);
}

fs::path CheckpointManager::folder() const {
  if (!project.automatic_checkpoint_naming) {
    throw StateError(
        "no folder was given, and `automatic_checkpoint_naming` is off",
        "pass a folder, or set ProjectConfiguration::project_dir and "
        "automatic_checkpoint_naming");
  }
  return project.project_dir / "checkpoints";
}

Destination CheckpointManager::destination(const fs::path& folder_path) const {
  Destination to;
  to.iteration = project.iteration;
  if (folder_path.empty()) {
    to.parent = folder();
    to.name = str_cat("checkpoint_", project.iteration);
    to.numbered = true;
    if (project.total_limit) {
      to.keep = static_cast<std::size_t>(*project.total_limit);
    }
    return to;
  }
  const fs::path full = fs::absolute(folder_path).lexically_normal();
  const fs::path plain = full.has_filename() ? full : full.parent_path();
  to.parent = plain.parent_path();
  to.name = plain.filename().string();
  if (to.name.empty()) {
    throw ArgumentError(
        str_cat(folder_path.string(), " cannot be a checkpoint folder"),
        "pass a folder that the checkpoint may replace");
  }
  return to;
}

CheckpointWriter& CheckpointManager::writer(const PartialState& state) {
  if (!writer_) {
    writer_ = std::make_unique<CheckpointWriter>(
        writers_of(state, project.save_on_each_node), staging_);
  }
  return *writer_;
}

// Other runs may never save in the background.
bool CheckpointManager::wants_memory() const {
  return project.automatic_checkpoint_naming && !project.save_on_each_node &&
         !writer_ && !memory_reserved_;
}

void CheckpointManager::reserve_memory(const CheckpointContents& contents) {
  memory_reserved_ = true;
  const Part part =
      part_of(contents, contents.process_index, contents.num_processes);
  std::uint64_t bytes = 0;
  for (const TensorFile& file : part.tensors) {
    for (const auto& [name, tensor] : file.tensors) {
      bytes += tensor.nbytes();
    }
  }
  // Not if memory is tight: perhaps every save will be a blocking one.
  constexpr std::uint64_t kMinFreeRatio = 4;
  if (bytes * kMinFreeRatio <= available_bytes()) {
    staging_->prepare(part);
  }
}

void CheckpointManager::record_save(const SaveResult& saved) {
  if (project.automatic_checkpoint_naming) {
    project.iteration = std::max(project.iteration, saved.iteration + 1);
  }
}

fs::path Accelerator::save_state(const SaveStateOptions& options) {
  return save_state(fs::path(), options);
}

// Weights go into `contents` as hooks leave them. Hooks and objects are the
// user's code, and may throw on one process only.
void Accelerator::Impl::collect_for_hooks(
    CheckpointContents& contents, const Destination& to) {
  const std::string context =
      str_cat("cannot save a checkpoint to ", (to.parent / to.name).string());
  run_collectively(state.group(), context, [&] { contents = collect(); });
  if (local_trainers > 0 && state.use_distributed()) {
    contents.write_from_main_rank();
    if (!std::exchange(warned_unsynchronized, true) &&
        state.is_main_process()) {
      std::cerr
          << "warning: a checkpoint saved inside LocalSGD contains only "
             "the weights and optimizer states of process 0; finish LocalSGD "
             "first to save the average over all processes\n"
          << std::flush;
    }
  }
  if (!any_rank(state.group(), !checkpoints->save_hooks->empty())) {
    return;
  }
  CheckpointWriter& writer = checkpoints->writer(state);
  const fs::path folder = with_usable_writer(
      *checkpoints, [&] { return writer.open_for_hooks(to); });
  const std::vector<TensorMap> before = model_weights(contents);
  std::vector<TensorMap> weights = before;
  try {
    run_collectively(state.group(), context + ": a save hook threw", [&] {
      for (const StateHook& hook : *checkpoints->save_hooks) {
        hook(weights, folder);
      }
    });
  } catch (...) {
    writer.discard_open_folder();
    throw;
  }
  if (any_rank(state.group(), !are_same(before, weights))) {
    take_hooked_weights(contents, std::move(weights));
  }
}

fs::path Accelerator::save_state(
    const fs::path& output_dir, const SaveStateOptions& options) {
  CheckpointManager& checkpoints = *impl_->checkpoints;
  wait_for_checkpoint();
  Destination to = checkpoints.destination(output_dir);
  CheckpointWriter& writer = checkpoints.writer(state());
  writer.choose_number(to);
  CheckpointContents contents;
  impl_->collect_for_hooks(contents, to);
  if (!options.blocking) {
    writer.save_in_background(contents, to);
    // The number advances although the save is still pending.
    checkpoints.record_save({to.parent / to.name, to.iteration});
    return to.parent / to.name;
  }
  const SaveResult saved = with_usable_writer(
      checkpoints, [&] { return writer.save(contents, to); });
  checkpoints.record_save(saved);
  return saved.path;
}

void Accelerator::wait_for_checkpoint() {
  CheckpointManager& checkpoints = *impl_->checkpoints;
  if (checkpoints.has_writer()) {
    const auto saved = with_usable_writer(
        checkpoints, [&] { return checkpoints.writer(state()).wait(); });
    if (saved) {
      checkpoints.record_save(*saved);
    }
  }
}

LoadStateReport Accelerator::load_state(const LoadStateOptions& options) {
  wait_for_checkpoint();
  const fs::path folder = impl_->checkpoints->folder();
  const bool share = !impl_->checkpoints->project.save_on_each_node;
  std::vector<std::string> passed_over;
  for (const fs::path& path : candidates(folder, group())) {
    std::optional<LoadedCheckpoint> loaded;
    try {
      loaded = load_checkpoint(path, group(), share);
    } catch (const DistributedError&) {
      throw;
    } catch (const MismatchError&) {
      throw;
    } catch (const RankError&) {
      throw;
    } catch (const OutOfMemoryError&) {
      throw;  // An older checkpoint is just as large.
    } catch (const Error& error) {
      passed_over.emplace_back(error.what());
      if (is_main_process()) {
        std::cerr << str_cat(
                         "warning: checkpoint skipped: ", error.what(), "\n")
                  << std::flush;
      }
      continue;
    }
    LoadStateReport report =
        impl_->restore(std::move(*loaded), path, options.strict);
    report.passed_over = std::move(passed_over);
    return report;
  }
  throw IoError(
      str_cat(
          "no complete checkpoint in ",
          folder.string(),
          passed_over.empty() ? "" : "; skipped:\n  ",
          passed_over.empty() ? "" : passed_over.front()),
      "to start from scratch, do not call load_state; otherwise pass it a "
      "checkpoint folder");
}

LoadStateReport Accelerator::load_state(
    const fs::path& input_dir, const LoadStateOptions& options) {
  wait_for_checkpoint();
  LoadedCheckpoint loaded = load_checkpoint(
      input_dir, group(), !impl_->checkpoints->project.save_on_each_node);
  return impl_->restore(std::move(loaded), input_dir, options.strict);
}

void Accelerator::register_json(
    std::function<Json()> save, std::function<void(const Json&)> load) {
  RegisteredObject object;
  object.save = std::move(save);
  object.load = std::move(load);
  impl_->checkpoints->registered.push_back(std::move(object));
}

void Accelerator::register_tensors(
    std::function<TensorMap()> save,
    std::function<void(const TensorMap&)> load) {
  RegisteredObject object;
  object.save_tensors = std::move(save);
  object.load_tensors = std::move(load);
  impl_->checkpoints->registered.push_back(std::move(object));
}

void Accelerator::register_random_state(
    const std::string& name,
    std::function<Tensor()> save,
    std::function<void(const Tensor&)> load) {
  impl_->checkpoints->random_states[name] = {std::move(save), std::move(load)};
}

Region Accelerator::register_save_state_pre_hook(StateHook hook) {
  return hook_region(impl_->checkpoints->save_hooks, std::move(hook));
}

Region Accelerator::register_load_state_pre_hook(StateHook hook) {
  return hook_region(impl_->checkpoints->load_hooks, std::move(hook));
}

const ProjectConfiguration& Accelerator::project_configuration() const {
  return impl_->checkpoints->project;
}

std::int64_t Accelerator::step() const {
  return impl_->updates;
}

}  // namespace accelerate
