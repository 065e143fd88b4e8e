// SPDX-License-Identifier: Apache-2.0
#include "accelerator/checkpointing.h"

#include <algorithm>
#include <iostream>
#include <numeric>
#include <utility>

#include "accelerate/error.h"
#include "accelerator/accelerator_impl.h"
#include "accelerator/run_together.h"
#include "base/available_memory.h"
#include "base/str_cat.h"
#include "checkpoint/parts.h"
#include "checkpoint/reader.h"
#include "folders/checkpoints.h"

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
              "project_dir is ",
              options.project_dir->string(),
              ", but that of project_config is ",
              project.project_dir.string()),
          "set it in project_config only");
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
        str_cat("ProjectConfiguration: iteration is ", project.iteration),
        "count checkpoints from 0");
  }
  if (project.total_limit && *project.total_limit < 1) {
    throw ArgumentError(
        str_cat("ProjectConfiguration: total_limit is ", *project.total_limit),
        "keep 1 or more checkpoints, or leave it out to keep all");
  }
  if (project.total_limit && !project.automatic_checkpoint_naming) {
    throw ArgumentError(
        "ProjectConfiguration: total_limit without automatic_checkpoint_naming",
        "set automatic_checkpoint_naming: only checkpoints with a number can "
        "be told apart by age");
  }
  if (project.automatic_checkpoint_naming && project.project_dir.empty()) {
    throw ArgumentError(
        "ProjectConfiguration: automatic_checkpoint_naming without project_dir",
        "say where checkpoints go with project_dir");
  }
}

// Groups of the writer's own.
WritingGroups writers_of(const PartialState& state, const bool on_each_node) {
  std::vector<int> ranks;
  const Group& world = state.group();
  if (world.size() == 1) {
    return Group();
  }
  std::vector<Json> nodes = world.gather_object(
      {Json(on_each_node ? state.node_index() : std::int64_t{0})});
  std::optional<Group> mine;
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
      mine = std::move(group);
    }
  }
  if (seen.size() == 1) {
    return *mine;
  }
  ranks.resize(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return {*mine, *world.subgroup(ranks)};
}

// The folders that `load_state()` may take, newest first, as rank 0 sees them;
// each rank looks for them in its own folder.
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
        "save a checkpoint first, or pass the folder of one");
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
  const auto place = hooks->insert(hooks->end(), std::move(hook));
  return Region([weak = std::weak_ptr(hooks), place] {
    if (const auto living = weak.lock()) {
      living->erase(place);
    }
  });
}

bool is_anywhere(const Group& group, const bool here) {
  return std::ranges::any_of(
      group.gather_object({Json(here)}),
      [](const Json& there) { return there.as_bool(); });
}

bool are_same(
    const std::vector<TensorMap>& ours, const std::vector<TensorMap>& theirs) {
  return std::ranges::equal(ours, theirs, [](const auto& one, const auto& two) {
    return std::ranges::equal(one, two, [](const auto& a, const auto& b) {
      return a.first == b.first && a.second.is_same(b.second);
    });
  });
}

// A writer whose group has failed is of no use; the next save makes another.
template <typename Work>
auto with_living_writer(Checkpointing& checkpoints, const Work& work) {
  try {
    return work();
  } catch (const DistributedError&) {
    checkpoints.close_writer();
    throw;
  }
}

}  // namespace

Checkpointing::Checkpointing(const AcceleratorOptions& options)
    : project(chosen_project(options)) {
  check_project(project);
}

fs::path Checkpointing::folder() const {
  if (!project.automatic_checkpoint_naming) {
    throw StateError(
        "no folder was given, and checkpoints are not named automatically",
        "pass a folder, or set ProjectConfiguration::project_dir and "
        "automatic_checkpoint_naming");
  }
  return project.project_dir / "checkpoints";
}

Destination Checkpointing::destination(const fs::path& given) const {
  Destination to;
  to.iteration = project.iteration;
  if (given.empty()) {
    to.parent = folder();
    to.name = str_cat("checkpoint_", project.iteration);
    to.numbered = true;
    if (project.total_limit) {
      to.keep = static_cast<std::size_t>(*project.total_limit);
    }
    return to;
  }
  const fs::path full = fs::absolute(given).lexically_normal();
  const fs::path plain = full.has_filename() ? full : full.parent_path();
  to.parent = plain.parent_path();
  to.name = plain.filename().string();
  if (to.name.empty()) {
    throw ArgumentError(
        str_cat(given.string(), " cannot be the name of a checkpoint"),
        "pass a folder that may be replaced as a whole");
  }
  return to;
}

CheckpointWriter& Checkpointing::writer(const PartialState& state) {
  if (!writer_) {
    writer_ = std::make_unique<CheckpointWriter>(
        writers_of(state, project.save_on_each_node), staging_);
  }
  return *writer_;
}

// Other runs may never save in the background.
bool Checkpointing::wants_memory() const {
  return project.automatic_checkpoint_naming && !project.save_on_each_node &&
         !writer_ && !got_memory_;
}

void Checkpointing::get_memory(const CheckpointContents& contents) {
  got_memory_ = true;
  const Part part =
      part_of(contents, contents.process_index, contents.num_processes);
  std::uint64_t bytes = 0;
  for (const TensorFile& file : part.tensors) {
    for (const auto& [name, tensor] : file.tensors) {
      bytes += tensor.nbytes();
    }
  }
  // Not where it could be the last: perhaps every save will be a blocking one.
  constexpr std::uint64_t kPlenty = 4;
  if (bytes * kPlenty <= available_bytes()) {
    staging_->prepare(part);
  }
}

void Checkpointing::note(const Saved& saved) {
  if (project.automatic_checkpoint_naming) {
    project.iteration = std::max(project.iteration, saved.iteration + 1);
  }
}

fs::path Accelerator::save_state(const SaveStateOptions& options) {
  return save_state(fs::path(), options);
}

// Weights go into `contents` as hooks leave them. Hooks and objects are the
// user's, and may throw on one process alone.
void Accelerator::Impl::collect_for_hooks(
    CheckpointContents& contents, const Destination& to) {
  const std::string none =
      str_cat("no checkpoint at ", (to.parent / to.name).string());
  run_together(state.group(), none, [&] { contents = collect(); });
  if (trains_locally > 0 && state.use_distributed()) {
    contents.take_from_main();
    if (!std::exchange(said_apart, true) && state.is_main_process()) {
      std::cerr << "warning: a checkpoint that is saved while processes train "
                   "apart (LocalSGD) has the weights and optimizers of process "
                   "0; end LocalSGD first to keep what the others have learnt\n"
                << std::flush;
    }
  }
  if (!is_anywhere(state.group(), !checkpoints->save_hooks->empty())) {
    return;
  }
  CheckpointWriter& writer = checkpoints->writer(state);
  const fs::path folder = with_living_writer(
      *checkpoints, [&] { return writer.open_for_hooks(to); });
  const std::vector<TensorMap> before = model_weights(contents);
  std::vector<TensorMap> weights = before;
  try {
    run_together(state.group(), none + ": a hook threw", [&] {
      for (const StateHook& hook : *checkpoints->save_hooks) {
        hook(weights, folder);
      }
    });
  } catch (...) {
    writer.discard_open();
    throw;
  }
  if (is_anywhere(state.group(), !are_same(before, weights))) {
    take_hooked_weights(contents, std::move(weights));
  }
}

fs::path Accelerator::save_state(
    const fs::path& output_dir, const SaveStateOptions& options) {
  Checkpointing& checkpoints = *impl_->checkpoints;
  wait_for_checkpoint();
  Destination to = checkpoints.destination(output_dir);
  CheckpointWriter& writer = checkpoints.writer(state());
  writer.choose_number(to);
  CheckpointContents contents;
  impl_->collect_for_hooks(contents, to);
  if (!options.blocking) {
    writer.save_in_background(contents, to);
    // Numbers go on although the outcome is open.
    checkpoints.note({to.parent / to.name, to.iteration});
    return to.parent / to.name;
  }
  const Saved saved = with_living_writer(
      checkpoints, [&] { return writer.save(contents, to); });
  checkpoints.note(saved);
  return saved.path;
}

void Accelerator::wait_for_checkpoint() {
  Checkpointing& checkpoints = *impl_->checkpoints;
  if (checkpoints.has_writer()) {
    const auto saved = with_living_writer(
        checkpoints, [&] { return checkpoints.writer(state()).wait(); });
    if (saved) {
      checkpoints.note(*saved);
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
      loaded = load_together(path, group(), share);
    } catch (const DistributedError&) {
      throw;
    } catch (const OutOfMemoryError&) {
      throw;  // An older one is no smaller.
    } catch (const Error& error) {
      passed_over.emplace_back(error.what());
      if (is_main_process()) {
        std::cerr << str_cat("warning: passed over: ", error.what(), "\n")
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
          passed_over.empty() ? "" : "; passed over:\n  ",
          passed_over.empty() ? "" : passed_over.front()),
      "start without load_state, or pass the folder of a checkpoint");
}

LoadStateReport Accelerator::load_state(
    const fs::path& input_dir, const LoadStateOptions& options) {
  wait_for_checkpoint();
  LoadedCheckpoint loaded = load_together(
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
