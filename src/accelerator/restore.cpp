// SPDX-License-Identifier: Apache-2.0
// A run that goes on where a checkpoint was saved.
#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "accelerate/error.h"
#include "accelerate/optimizer_state.h"
#include "accelerator/accelerator_impl.h"
#include "accelerator/checkpointing.h"
#include "accelerator/run_names.h"
#include "accelerator/run_together.h"
#include "base/str_cat.h"
#include "checkpoint/large_copies.h"
#include "folders/checksum.h"
#include "folders/manifest.h"
#include "optim/staged_state.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

void set_random_state(const at::Tensor& state, c10::Device device) {
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state.clone());
}

// For a rank that the saved run did not have: random, and the same each time.
void set_derived_random_state(
    const at::Tensor& state, const int rank, c10::Device device) {
  const std::string sum = checksum_of(
      {static_cast<const char*>(state.const_data_ptr()),
       static_cast<std::size_t>(state.nbytes())});
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(
      std::stoull(sum, nullptr, 16) + static_cast<std::uint64_t>(rank));
}

std::string shape_text(const at::Tensor& tensor) {
  return str_cat(tensor.scalar_type(), tensor.sizes());
}

}  // namespace

/// Gives a run the state of a checkpoint, in two steps: everything that can
/// fail is done by the constructor and by `load_small`, which can be undone.
class Accelerator::Impl::Restorer {
 public:
  Restorer(Impl& run, LoadedCheckpoint loaded, const fs::path& path)
      : run_(run), loaded_(std::move(loaded)), optimizers_(run.optimizers()) {
    run_hooks(path);
    read_kept_out();
    check_models();
    check_optimizers();
    check_count("schedulers", run_.schedulers().size());
    check_count("loaders", run_.loaders().size());
    check_count("registered", run_.checkpoints->registered.size());
    check_registered();
    check_own();
    if (loaded_.documents.contains("scaler") !=
        (run_.scaling->scaler() != nullptr)) {
      problems_.push_back(
          loaded_.documents.contains("scaler")
              ? "the checkpoint has a gradient scaler, this run has none"
              : "this run has a gradient scaler, the checkpoint has none");
    }
  }

  const std::vector<std::string>& problems() const { return problems_; }

  /// Schedulers, loaders, scaler and registered values: small, so that the old
  /// state is kept and `undo` can bring it back. What refuses its state is left
  /// out unless `strict`.
  void load_small(const bool strict) {
    strict_ = strict;
    const auto load_list = [&](const char* name, auto objects) {
      const auto& states = loaded_.documents[name].as_array();
      for (std::size_t i = 0; i < objects.size() && i < states.size(); ++i) {
        attempt(
            str_cat(name, " ", i), [&] { load_one(*objects[i], states[i]); });
      }
    };
    load_list("schedulers", run_.schedulers());
    load_list("loaders", run_.loaders());
    if (run_.scaling->scaler() != nullptr &&
        loaded_.documents.contains("scaler")) {
      attempt("scaler", [&] {
        load_one(*run_.scaling->scaler(), loaded_.documents["scaler"]);
      });
    }
    const auto& states = loaded_.documents["registered"].as_array();
    for (std::size_t i = 0;
         i < run_.checkpoints->registered.size() && i < states.size();
         ++i) {
      attempt(str_cat("registered ", i), [&] {
        load_registered(run_.checkpoints->registered[i], i, states[i]);
      });
    }
  }

  void undo() {
    while (!undo_.empty()) {
      undo_.back()();
      undo_.pop_back();
    }
  }

  void apply() {
    const at::NoGradGuard guard;
    for (const auto& step : steps_) {
      step();
    }
    const Json& run = loaded_.documents["run"];
    run_.accumulation.load_state_dict(run.at("accumulation"));
    run_.gradients->sync_gradients = run.at("sync_gradients").as_bool();
    run_.updates = loaded_.step;
    load_gradients();
    load_random_state();
    auto& project = run_.checkpoints->project;
    project.iteration = std::max(project.iteration, loaded_.iteration + 1);
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
  void run_hooks(const fs::path& path) {
    std::vector<TensorMap> weights;
    for (std::size_t m = 0; m < run_.models.size(); ++m) {
      const auto found = loaded_.weights.find(numbered("model", m));
      saved_models_.push_back(found != loaded_.weights.end());
      weights.push_back(saved_models_.back() ? found->second : TensorMap{});
    }
    const std::vector<TensorMap> before = weights;
    try {
      for (const auto& hook : *run_.checkpoints->load_hooks) {
        hook(weights, path / kHooksFolder);
      }
    } catch (const std::exception& error) {
      throw StateError(str_cat("a hook threw: ", error.what()));
    }
    for (std::size_t m = 0; m < run_.models.size(); ++m) {
      TensorMap now = m < weights.size() ? std::move(weights[m]) : TensorMap{};
      for (const auto& [name, tensor] : before[m]) {
        if (!now.contains(name)) {
          hooked_.insert({m, name});
        }
      }
      if (saved_models_[m]) {
        loaded_.weights[numbered("model", m)] = std::move(now);
      }
    }
  }

  // What hooks of the saved run took out, to keep it elsewhere or not at all.
  void read_kept_out() {
    const Json* models = loaded_.documents["run"].find(kKeptOut);
    if (models == nullptr) {
      return;
    }
    for (std::size_t m = 0; m < models->size(); ++m) {
      for (const Json& name : models->at(m).as_array()) {
        kept_out_.insert({m, name.as_string()});
      }
    }
  }

  void check_models() {
    const auto saved = static_cast<std::size_t>(
        loaded_.documents["run"].at("models").as_integer());
    if (saved != run_.models.size()) {
      problems_.push_back(str_cat(
          "the checkpoint has ",
          saved,
          " models, this run has ",
          run_.models.size()));
    }
    for (std::size_t m = 0; m < run_.models.size(); ++m) {
      if (saved_models_[m]) {
        check_model(m);
      }
    }
  }

  void check_model(const std::size_t index) {
    TensorMap& saved = loaded_.weights[numbered("model", index)];
    const std::string label = numbered("model", index);
    for (const auto& [name, here] : weights_of(run_.models[index])) {
      const auto found = saved.find(name);
      if (found == saved.end()) {
        check_missing(index, name);
      } else if (found->second.sizes() != here.sizes()) {
        problems_.push_back(str_cat(
            label,
            ": `",
            name,
            "` is ",
            shape_text(found->second),
            ", in this run ",
            shape_text(here)));
      } else {
        steps_.push_back(
            [to = here, from = found->second] { copy_large(to, from); });
      }
      if (found != saved.end()) {
        saved.erase(found);
      }
    }
    for (const auto& [name, tensor] : saved) {
      problems_.push_back(str_cat(label, ": this run has no `", name, "`"));
    }
  }

  // A weight of this run that is not loaded, which may be what hooks want.
  void check_missing(const std::size_t model, const std::string& name) {
    const bool kept_out = kept_out_.contains({model, name});
    const bool has_hooks = !run_.checkpoints->load_hooks->empty();
    if (hooked_.contains({model, name}) || (kept_out && has_hooks)) {
      return;
    }
    problems_.push_back(
        kept_out ? str_cat(
                       numbered("model", model),
                       ": a hook kept `",
                       name,
                       "` out of the checkpoint, and this run has no hook "
                       "that could load it")
                 : str_cat(
                       numbered("model", model),
                       ": the checkpoint has no `",
                       name,
                       "`"));
  }

  void check_optimizers() {
    const auto saved = static_cast<std::size_t>(
        loaded_.documents["run"].at("optimizers").as_integer());
    if (saved != optimizers_.size()) {
      problems_.push_back(str_cat(
          "the checkpoint has ",
          saved,
          " optimizers, this run has ",
          optimizers_.size()));
    }
    const auto named = named_parameters(run_.models);
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

  bool has_own() const {
    const auto rank = static_cast<std::size_t>(run_.state.process_index());
    return loaded_.world_size() == run_.state.num_processes() &&
           !loaded_.own[rank].empty();
  }

  static bool has_gradients(const TensorMap& own) {
    const auto next = own.lower_bound(kGradient);
    return next != own.end() && next->first.starts_with(kGradient);
  }

  // A checkpoint of one node has the sums of its own ranks alone.
  void check_own() {
    if (has_own() || loaded_.has_all_ranks()) {
      return;
    }
    for (const TensorMap& own : loaded_.own) {
      if (has_gradients(own)) {
        problems_.push_back(
            "the checkpoint of one node, saved in the middle of an "
            "accumulation, has the gradients of that node's processes only");
        return;
      }
    }
  }

  void check_count(const char* name, const std::size_t here) {
    const std::size_t saved = loaded_.documents[name].as_array().size();
    if (saved != here) {
      problems_.push_back(str_cat(
          "the checkpoint has ", saved, " ", name, ", this run has ", here));
    }
  }

  // The kinds of the objects that both have.
  void check_registered() {
    const auto& objects = run_.checkpoints->registered;
    const std::size_t saved = loaded_.documents["registered"].as_array().size();
    for (std::size_t i = 0; i < std::min(objects.size(), saved); ++i) {
      if (has_tensors(i) != static_cast<bool>(objects[i].load_tensors)) {
        problems_.push_back(str_cat(
            "registered ",
            i,
            has_tensors(i) ? " was saved as tensors, this run loads JSON"
                           : " was saved as JSON, this run loads tensors"));
      }
    }
  }

  bool has_tensors(const std::size_t registered) const {
    return loaded_.weights.contains(str_cat("registered_", registered));
  }

  // Loads one object; without `strict_` one that throws keeps what it had.
  void attempt(const std::string& name, const std::function<void()>& load) {
    const std::size_t before = undo_.size();
    try {
      load();
    } catch (const std::exception& error) {
      if (strict_) {
        throw;
      }
      while (undo_.size() > before) {
        undo_.back()();
        undo_.pop_back();
      }
      problems_.push_back(str_cat(name, ": ", error.what()));
    }
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
      return;  // Another kind, which is among the problems.
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

  // At the same number of processes each takes its own sum; otherwise all take
  // an equal part of what the saved run had.
  void load_gradients() {
    const auto rank = static_cast<std::size_t>(run_.state.process_index());
    const bool same = has_own();
    // The sums of some ranks only are no sum: they are among the problems.
    const bool complete = loaded_.has_all_ranks();
    for (std::size_t m = 0; m < run_.models.size(); ++m) {
      if (!run_.models[m].path) {
        continue;
      }
      const NamedTensors& parameters = run_.models[m].path->parameters();
      std::vector<at::Tensor> sums;
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        const std::string name = gradient_name(m, parameters.names[i]);
        sums.push_back(
            same       ? saved_by(rank, name)
            : complete ? part_for_each_rank(name)
                       : at::Tensor());
        parameters.tensors[i].mutable_grad().reset();
      }
      run_.models[m].path->set_sums(sums);
    }
    run_.accumulation.set_group_weight(
        same       ? group_weight_of(loaded_.own[rank])
        : complete ? weight_for_each_rank()
                   : 0);
  }

  static double group_weight_of(const TensorMap& own) {
    return own.at(kGroupWeight).item<double>();
  }

  double weight_for_each_rank() const {
    double sum = 0;
    for (const TensorMap& own : loaded_.own) {
      sum += group_weight_of(own);
    }
    return sum / static_cast<double>(run_.state.num_processes());
  }

  at::Tensor saved_by(const std::size_t rank, const std::string& name) const {
    const auto found = loaded_.own[rank].find(name);
    return found == loaded_.own[rank].end() ? at::Tensor() : found->second;
  }

  // Fixed weights are those of a mean over the ranks of a micro-step, which
  // were those that saved. With others the update is one sum over everything,
  // divided by its weight: the parts add up to what was saved.
  at::Tensor part_for_each_rank(const std::string& name) const {
    const bool fixed =
        run_.accumulation.plugin().weighting == AccumulationWeighting::fixed;
    const auto parts =
        fixed ? loaded_.world_size() : run_.state.num_processes();
    at::Tensor sum;
    for (std::size_t rank = 0; rank < loaded_.own.size(); ++rank) {
      const at::Tensor part = saved_by(rank, name);
      if (part.defined()) {
        sum = sum.defined() ? sum.add(part) : part.clone();
      }
    }
    return sum.defined() ? sum.div(parts) : sum;
  }

  void load_random_state() {
    load_random_state(kRandomState, c10::Device(c10::kCPU));
    if (!run_.state.device().is_cpu()) {
      load_random_state(kDeviceRandomState, run_.state.device());
    }
    const auto rank = static_cast<std::size_t>(run_.state.process_index());
    for (const auto& [name, random] : run_.checkpoints->random_states) {
      const std::string key = str_cat(kOtherRandomState, name);
      if (rank < loaded_.own.size() && loaded_.own[rank].count(key) > 0) {
        random.load(loaded_.own[rank].at(key).clone());
      }
    }
  }

  // A run that was saved on another kind of device has no state for this one:
  // it begins at what the CPU's stands for.
  void load_random_state(const char* name, c10::Device device) {
    const auto rank = static_cast<std::size_t>(run_.state.process_index());
    if (rank < loaded_.own.size() && loaded_.own[rank].count(name) > 0) {
      set_random_state(loaded_.own[rank].at(name), device);
      return;
    }
    const auto other = std::ranges::find_if(
        loaded_.own, [](const TensorMap& own) { return !own.empty(); });
    derived_.push_back(str_cat(
        "the random state of rank ",
        rank,
        " on ",
        device.str(),
        ": the checkpoint has none, so it was derived from that of rank ",
        other - loaded_.own.begin()));
    set_derived_random_state(
        other->at(kRandomState), static_cast<int>(rank), device);
  }

  Impl& run_;
  LoadedCheckpoint loaded_;
  std::vector<torch::optim::Optimizer*> optimizers_;
  std::vector<bool> saved_models_;
  // Weights by model and name: those that hooks took out now, and those that
  // hooks took out when it was saved.
  std::set<std::pair<std::size_t, std::string>> hooked_;
  std::set<std::pair<std::size_t, std::string>> kept_out_;
  std::vector<std::function<void()>> steps_;
  std::vector<std::function<void()>> undo_;
  std::vector<std::string> problems_;
  std::vector<std::string> derived_;
  bool strict_ = true;
};

// Every rank checks before any rank changes something.
LoadStateReport Accelerator::Impl::restore(
    LoadedCheckpoint loaded, const fs::path& path, const bool strict) {
  std::optional<Restorer> restorer;
  const auto agreed = [&](const std::function<void()>& work) {
    return problems_of(state.group(), work);
  };
  const auto fail = [&](const std::string& why) {
    if (!why.empty()) {
      throw FormatError(
          str_cat(
              "cannot load ",
              path.string(),
              why.starts_with("\n") ? ":" : ": ",
              why),
          "nothing was changed; prepare what the saved run had prepared, or "
          "pass `{.strict = false}` to leave out what does not fit");
    }
  };
  fail(agreed([&] {
    restorer.emplace(*this, std::move(loaded), path);
    if (strict && !restorer->problems().empty()) {
      std::string list = "it does not fit this run";
      for (const std::string& problem : restorer->problems()) {
        list += str_cat("\n  ", problem);
      }
      throw FormatError(list);
    }
  }));
  scaling->settle();
  const std::string problem = agreed([&] { restorer->load_small(strict); });
  if (!problem.empty()) {
    restorer->undo();
    fail(problem);
  }
  restorer->apply();
  LoadStateReport report = restorer->report(path);
  restorer.reset();
  return report;
}

}  // namespace accelerate
