// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/restore.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include "accelerate/data_loader_base.h"
#include "accelerate/error.h"
#include "accelerate/lr_scheduler.h"
#include "accelerate/optimizer_state.h"
#include "base/str_cat.h"
#include "checkpoint/checkpoint_names.h"
#include "checkpoint/restored_gradients.h"
#include "checkpoint/restored_weights.h"
#include "checkpoint_directory/manifest.h"
#include "comm/run_collectively.h"
#include "optim/staged_state.h"
#include "training/random_states.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

/// Restores the state of a run in two steps. The constructor and `load_small`
/// do everything that can fail, and their changes can be undone; `apply` does
/// the rest.
class Restorer {
 public:
  Restorer(
      const RunParts& run,
      const RegisteredState& registered,
      LoadedCheckpoint loaded,
      const fs::path& path)
      : run_(run),
        registered_(registered),
        loaded_(std::move(loaded)),
        optimizers_(run.objects.optimizers()),
        weights_(
            loaded_,
            run_.objects.models(),
            rank_state_if_same_size(),
            registered_.load_hooks,
            path / kHooksDirectory) {
    add_problems(weights_.problems());
    check_optimizers();
    check_count("schedulers", "schedulers", run_.objects.schedulers().size());
    check_count("loaders", "loaders", run_.objects.loaders().size());
    check_count("registered", "registered objects", registered_.objects.size());
    check_registered();
    check_gradients();
    check_random_states();
    if (loaded_.documents.contains("scaler") !=
        (run_.training.scaling()->scaler() != nullptr)) {
      problems_.push_back(
          loaded_.documents.contains("scaler")
              ? "the checkpoint has a gradient scaler, but this run has none"
              : "this run has a gradient scaler, but the checkpoint has none");
    }
  }

  const std::vector<std::string>& problems() const { return problems_; }

  /// Loads schedulers, loaders, scaler, registered objects, the position in a
  /// micro-batch group and random states. These states are small, so the old
  /// states are kept for `undo`. Unless `strict`, skips objects that reject
  /// their state.
  void load_small(const bool strict) {
    strict_ = strict;
    const auto load_list = [&](const char* name,
                               const char* label,
                               auto objects) {
      const auto& states = loaded_.documents[name].as_array();
      for (std::size_t i = 0; i < objects.size() && i < states.size(); ++i) {
        attempt(
            str_cat(label, " ", i), [&] { load_one(*objects[i], states[i]); });
      }
    };
    load_list("schedulers", "scheduler", run_.objects.schedulers());
    load_list("loaders", "loader", run_.objects.loaders());
    if (run_.training.scaling()->scaler() != nullptr &&
        loaded_.documents.contains("scaler")) {
      attempt("scaler", [&] {
        load_one(
            *run_.training.scaling()->scaler(), loaded_.documents["scaler"]);
      });
    }
    const auto& states = loaded_.documents["registered"].as_array();
    for (std::size_t i = 0; i < registered_.objects.size() && i < states.size();
         ++i) {
      attempt(str_cat("registered object ", i), [&] {
        load_registered(registered_.objects[i], i, states[i]);
      });
    }
    attempt("run", [&] { load_accumulation(); });
    // The last step, because the other steps may draw random numbers.
    load_random_states();
  }

  /// Restores the state before `load_small`; returns the errors of objects that
  /// rejected their old state.
  std::string undo() { return undo_to(0); }

  /// Restores the rest, which cannot fail.
  void apply() {
    const at::NoGradGuard guard;
    weights_.apply();
    for (const auto& step : steps_) {
      step();
    }
    gradients_->apply();
    run_.training.set_updates(loaded_.step);
    for (const auto& [name, document] : registered_.run_documents) {
      if (const Json* const saved = loaded_.documents["run"].find(name)) {
        document.load(*saved);
      }
    }
  }

  LoadStateReport report(const fs::path& path) const {
    LoadStateReport report;
    report.path = path;
    report.step = loaded_.step;
    report.epoch = loaded_.epoch;
    report.world_size = loaded_.world_size();
    report.left_out = problems_;
    report.derived = derived_;
    return report;
  }

 private:
  /// The saved state of this rank; null if the number of processes has changed.
  const TensorMap* rank_state_if_same_size() const {
    return loaded_.world_size() == run_.state.num_processes()
               ? &loaded_.rank_states[rank()]
               : nullptr;
  }

  void add_problems(const std::vector<std::string>& problems) {
    problems_.insert(problems_.end(), problems.begin(), problems.end());
  }

  void check_optimizers() {
    const auto saved = static_cast<std::size_t>(
        loaded_.documents["run"].at("optimizers").as_integer());
    if (saved != optimizers_.size()) {
      problems_.push_back(str_cat(
          "different numbers of optimizers: ",
          saved,
          " in the checkpoint, ",
          optimizers_.size(),
          " in this run"));
    }
    const auto named = named_parameters(run_.objects.models());
    for (std::size_t o = 0; o < std::min(saved, optimizers_.size()); ++o) {
      const std::string label = numbered("optimizer", o);
      auto kept = std::make_shared<OptimizerState>();
      kept->tensors = std::move(loaded_.ranges[label]);
      kept->scalars = std::move(loaded_.documents[label]);
      try {
        steps_.push_back([kept,
                          stage = stage_optimizer_state(
                              *optimizers_[o],
                              *kept,
                              parameter_names(*optimizers_[o], named),
                              Adopt::yes)] { stage(); });
      } catch (const Error& error) {
        problems_.push_back(str_cat(label, ": ", error.what()));
      }
    }
  }

  void check_gradients() {
    gradients_.emplace(
        loaded_,
        run_.objects.models(),
        RestoredGradients::Position{
            rank(),
            static_cast<std::size_t>(run_.state.num_processes()),
            static_cast<std::size_t>(run_.mesh.data_size())},
        run_.training.accumulation().plugin().weighting);
    const Json* saved = loaded_.documents["run"].find("accumulation");
    if (saved != nullptr && gradients_->any()) {
      if (const auto reason =
              run_.training.accumulation().incompatibility(*saved);
          !reason.empty()) {
        gradients_->discard(reason);
      }
    }
    add_problems(gradients_->problems());
  }

  // If a rank saved other random states but not a registered one, the name has
  // changed or the registration was forgotten. A rank that saved none, for
  // example in a program in another language, had no registered states.
  void check_random_states() {
    const bool had_some =
        has_rank_state() &&
        any_name_begins(loaded_.rank_states[rank()], kOtherRandomState);
    for (const auto& [name, random] : registered_.random_states) {
      if (saved_tensor(str_cat(kOtherRandomState, name)) != nullptr) {
        continue;
      }
      const std::string text = str_cat(
          "random state `",
          name,
          "`: rank ",
          rank(),
          " of the saved run had no such state");
      had_some ? problems_.push_back(text)
               : derived_.push_back(text + ", so it is unchanged");
    }
  }

  bool has_rank_state() const {
    return rank() < loaded_.rank_states.size() &&
           !loaded_.rank_states[rank()].empty();
  }

  std::size_t rank() const {
    return static_cast<std::size_t>(run_.state.process_index());
  }

  void check_count(
      const char* name, const char* label, const std::size_t here) {
    const std::size_t saved = loaded_.documents[name].as_array().size();
    if (saved != here) {
      problems_.push_back(str_cat(
          "different numbers of ",
          label,
          ": ",
          saved,
          " in the checkpoint, ",
          here,
          " in this run"));
    }
  }

  // Checks the types of the registered objects that both the checkpoint and
  // this run have.
  void check_registered() {
    const auto& objects = registered_.objects;
    const std::size_t saved = loaded_.documents["registered"].as_array().size();
    for (std::size_t i = 0; i < std::min(objects.size(), saved); ++i) {
      if (has_tensors(i) != static_cast<bool>(objects[i].load_tensors)) {
        problems_.push_back(str_cat(
            "registered object ",
            i,
            has_tensors(i) ? " was saved as tensors, but this run loads JSON"
                           : " was saved as JSON, but this run loads tensors"));
      }
    }
  }

  bool has_tensors(const std::size_t registered) const {
    return loaded_.weights.contains(str_cat("registered_", registered));
  }

  // Loads one object. Without `strict_`, an object that throws keeps its state.
  void attempt(const std::string& name, const std::function<void()>& load) {
    const std::size_t before = undo_.size();
    try {
      load();
    } catch (const std::exception& error) {
      if (strict_) {
        throw;
      }
      problems_.push_back(str_cat(name, ": ", error.what(), undo_to(before)));
    }
  }

  std::string undo_to(const std::size_t size) {
    std::string refused;
    while (undo_.size() > size) {
      const auto step = std::move(undo_.back());
      undo_.pop_back();
      try {
        step();
      } catch (const std::exception& error) {
        refused += str_cat(
            "\n  restoring the previous state failed too: ", error.what());
      }
    }
    return refused;
  }

  template <typename Object>
  void load_one(Object& object, const Json& saved) {
    undo_.push_back([&object, before = object.state_dict()] {
      object.load_state_dict(before);
    });
    object.load_state_dict(saved);
  }

  void load_registered(
      const RegisteredObject& object,
      const std::size_t index,
      const Json& saved) {
    const auto tensors = loaded_.weights.find(str_cat("registered_", index));
    if (has_tensors(index) != static_cast<bool>(object.load_tensors)) {
      return;  // The type differs, which `problems` already contains.
    }
    if (object.load) {
      undo_.push_back(
          [&object, before = object.save()] { object.load(before); });
      object.load(saved);
    } else {
      TensorMap before = object.save_tensors();
      for (auto& [name, tensor] : before) {
        tensor = tensor.clone();
      }
      undo_.push_back([&object, before = std::move(before)] {
        object.load_tensors(before);
      });
      object.load_tensors(tensors->second);
    }
  }

  void load_accumulation() {
    const Json& run = loaded_.documents["run"];
    undo_.push_back([this,
                     before = run_.training.accumulation(),
                     sync = run_.training.gradients()->sync_gradients] {
      run_.training.accumulation() = before;
      run_.training.gradients()->sync_gradients = sync;
    });
    run_.training.accumulation().load_state_dict(run.at("accumulation"));
    run_.training.accumulation().set_group_weight(gradients_->group_weight());
    run_.training.gradients()->sync_gradients =
        run.at("sync_gradients").as_bool();
  }

  void load_random_states() {
    load_random_state(kRandomState, c10::Device(c10::kCPU));
    if (!run_.state.device().is_cpu()) {
      load_random_state(kDeviceRandomState, run_.state.device());
    }
    for (const auto& [name, random] : registered_.random_states) {
      const at::Tensor* saved = saved_tensor(str_cat(kOtherRandomState, name));
      if (saved != nullptr) {
        attempt(str_cat("random state `", name, "`"), [&, &object = random] {
          undo_.push_back([&object, before = object.save().clone()] {
            object.load(before);
          });
          object.load(saved->clone());
        });
      }
    }
  }

  void load_random_state(const char* name, c10::Device device) {
    attempt(str_cat("random state `", name, "` of rank ", rank()), [&] {
      undo_.push_back([device, before = random_state(device)] {
        set_random_state(before, device);
      });
      if (const at::Tensor* saved = saved_tensor(name)) {
        set_random_state(*saved, device);
      } else {
        derive_random_state(device);
      }
    });
  }

  // Derives the random state of `device` from the state of the CPU, because a
  // checkpoint from another type of device does not contain it.
  void derive_random_state(c10::Device device) {
    const auto other = std::ranges::find_if(
        loaded_.rank_states, [](const TensorMap& rank_state) {
          return rank_state.contains(kRandomState);
        });
    if (other == loaded_.rank_states.end()) {
      throw FormatError(
          str_cat("no process saved the random state `", kRandomState, "`"));
    }
    set_derived_random_state(
        other->at(kRandomState), static_cast<int>(rank()), device);
    derived_.push_back(str_cat(
        "the checkpoint has no random state of rank ",
        rank(),
        " on ",
        device.str(),
        ", so it was derived from the state of rank ",
        other - loaded_.rank_states.begin()));
  }

  /// The tensor that this rank saved; null if there is none.
  const at::Tensor* saved_tensor(const std::string& name) const {
    if (rank() >= loaded_.rank_states.size()) {
      return nullptr;
    }
    const auto found = loaded_.rank_states[rank()].find(name);
    return found == loaded_.rank_states[rank()].end() ? nullptr
                                                      : &found->second;
  }

  RunParts run_;
  const RegisteredState& registered_;
  LoadedCheckpoint loaded_;
  std::vector<torch::optim::Optimizer*> optimizers_;
  RestoredWeights weights_;
  std::optional<RestoredGradients> gradients_;
  std::vector<std::function<void()>> steps_;
  std::vector<std::function<void()>> undo_;
  std::vector<std::string> problems_;
  std::vector<std::string> derived_;
  bool strict_ = true;
};

}  // namespace

LoadStateReport restore(
    const RunParts& run,
    const RegisteredState& registered,
    LoadedCheckpoint loaded,
    const RestoreOptions& options) {
  std::optional<Restorer> restorer;
  const auto agreed = [&](const std::function<void()>& work) {
    const RankOutcomes outcomes = try_collectively(run.state.group(), [&] {
      work();
      return Json();
    });
    return outcomes.merged_table();
  };
  const auto fail = [&](const std::string& problem,
                        const std::string& undo_problem = "") {
    if (!problem.empty()) {
      throw FormatError(
          str_cat(
              "cannot load ",
              options.path.string(),
              problem.starts_with("\n") ? ":" : ": ",
              problem,
              undo_problem),
          "prepare the same objects as the saved run, or pass "
          "`{.strict = false}` to skip what does not fit; the state of this "
          "run is unchanged unless an error above says otherwise");
    }
  };
  fail(agreed([&] {
    restorer.emplace(run, registered, std::move(loaded), options.path);
    if (options.strict && !restorer->problems().empty()) {
      std::string list = "the checkpoint does not fit this run";
      for (const std::string& problem : restorer->problems()) {
        list += str_cat("\n  ", problem);
      }
      throw FormatError(list);
    }
  }));
  run.training.scaling()->update_scale();
  const std::string problem =
      agreed([&] { restorer->load_small(options.strict); });
  if (!problem.empty()) {
    fail(problem, restorer->undo());
  }
  restorer->apply();
  LoadStateReport report = restorer->report(options.path);
  restorer.reset();
  return report;
}

}  // namespace accelerate
