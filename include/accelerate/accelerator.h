// SPDX-License-Identifier: Apache-2.0
// The training loop's one point of contact with devices, precision and peers.
//
//     accelerate::Accelerator accelerator;
//     accelerator.prepare(loader, model, optimizer);
//     for (auto& batch : loader) {
//       auto loss = loss_of(model, batch);
//       accelerator.backward(loss);
//       optimizer.step();
//       optimizer.zero_grad();
//     }
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <c10/core/Device.h>

#include "accelerate/accelerator_options.h"
#include "accelerate/checkpoint.h"
#include "accelerate/export.h"
#include "accelerate/fwd.h"
#include "accelerate/graph.h"
#include "accelerate/group.h"
#include "accelerate/json.h"
#include "accelerate/memory.h"
#include "accelerate/partial_state.h"
#include "accelerate/precision.h"
#include "accelerate/profiler.h"
#include "accelerate/saving.h"

namespace accelerate {

class Accelerator;
class AutocastGuard;
class DataLoaderBase;
class LRScheduler;

namespace detail {

template <typename T, typename Base>
concept PointsTo = std::is_convertible_v<T*, Base*>;

template <typename T>
concept HoldsModule = requires(T& object) {
  { *object.ptr() };
};

template <typename T>
concept GivesModule = requires(T& object) {
  { *object.module() };
};

template <typename T>
concept PointerToModule = requires(T& object) {
  requires PointsTo<typename T::element_type, torch::nn::Module>;
};

template <typename T>
concept ModelLike = PointsTo<T, torch::nn::Module> || GivesModule<T> ||
                    HoldsModule<T> || PointerToModule<T>;

/// The module that a model, its holder or its handle stands for.
template <ModelLike T>
decltype(auto) module_of(T& object) {
  if constexpr (PointsTo<T, torch::nn::Module>) {
    return (object);
  } else if constexpr (GivesModule<T>) {
    return *object.module();
  } else if constexpr (HoldsModule<T>) {
    return *object.ptr();
  } else {
    return *object;
  }
}

template <typename>
inline constexpr bool kNotPreparable = false;

template <typename T>
concept HasJsonState = requires(T& object, const Json& state) {
  { object.state_dict() } -> std::same_as<Json>;
  object.load_state_dict(state);
};

template <typename T>
concept HasTensorState =
    requires(T& object, const std::map<std::string, Tensor>& state) {
      { object.state_dict() } -> std::same_as<std::map<std::string, Tensor>>;
      object.load_state_dict(state);
    };

}  // namespace detail

/// Ends a region that `Accelerator` opened: `no_sync`, `accumulate`,
/// `join_uneven_inputs`.
class ACCELERATE_API Region {
 public:
  explicit Region(std::function<void()> at_end);
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  Region(Region&& other) noexcept;
  /// Ends the region; an error goes to stderr.
  ~Region();
  /// Ends the region now; throws what goes wrong.
  void end();

 private:
  std::function<void()> at_end_;
};

/// One process's view of a training run.
///
/// Construct one per process. It joins the run (see `PartialState`), and what
/// `prepare` was given trains on all its processes as on one: `backward`
/// averages the gradients, loaders deal out the batches, schedulers count
/// right. Nothing is wrapped; `model`, `optimizer` and loaders are used as
/// before.
///
/// Gradients: after `backward`, `.grad` holds the average over processes. On a
/// micro-step of an accumulation it stays undefined, so that
/// `optimizer.step()` and `zero_grad()` do nothing by themselves, whatever
/// optimizer it is.
///
/// Thread safety: one thread, the one that trains.
class ACCELERATE_API Accelerator {
 public:
  explicit Accelerator(const AcceleratorOptions& options = {});
  /// Over a state of its own; for tests with ranks as threads.
  Accelerator(PartialState state, const AcceleratorOptions& options);
  Accelerator(const Accelerator&) = delete;
  Accelerator& operator=(const Accelerator&) = delete;
  ~Accelerator();

  // Getting ready ------------------------------------------------------------

  /// Readies each object in place; the order does not matter, and neither does
  /// doing it twice. Takes modules (also holders, `shared_ptr`s and anything
  /// with `.module()`), optimizers, `DataLoader`s and `LRScheduler`s.
  ///
  /// Collective for modules: parameters and buffers become those of process 0.
  /// Throws `MismatchError` with a list when processes have different models.
  template <typename... Objects>
  void prepare(Objects&... objects) {
    (prepare_any(objects), ...);
  }

  /// The single-object forms.
  void prepare_model(
      torch::nn::Module& model, const PrepareModelOptions& options = {});
  void prepare_optimizer(torch::optim::Optimizer& optimizer);
  /// `device_placement`: whether batches move to the device; left out: as the
  /// Accelerator was told.
  void prepare_data_loader(
      DataLoaderBase& loader,
      std::optional<bool> device_placement = std::nullopt);
  void prepare_scheduler(LRScheduler& scheduler);

  /// What `prepare_model` does, for a model that is no `torch::nn::Module`:
  /// the binding of another language, say. Names and tensors in equal order;
  /// tensors that need no gradient are only made equal.
  ///
  /// Collective.
  void prepare_parameters(
      const std::vector<std::string>& names,
      const std::vector<Tensor>& tensors,
      const std::vector<Tensor>& buffers);

  // Training -----------------------------------------------------------------

  /// Adds the gradients of `loss`, scaled so that the micro-steps of one
  /// update equal one large batch.
  ///
  /// Collective. Throws `ArgumentError` unless `loss` is a scalar that needs
  /// gradients, `PeerError` when another process failed in its backward.
  void backward(const Tensor& loss, const BackwardOptions& options = {});

  /// Opens one micro-step of gradient accumulation, for everything that was
  /// prepared; decides whether its backward synchronises.
  ///
  ///     for (auto& batch : loader) {
  ///       auto step = accelerator.accumulate();
  ///       …
  ///     }
  [[nodiscard]] Region accumulate();
  /// As `accumulate`, with the weight of this micro-batch (tokens, say) for
  /// `AccumulationWeighting::weighted`.
  [[nodiscard]] Region accumulate(double weight);
  /// The same, as the peer writes it. Everything that was prepared accumulates;
  /// throws `StateError` for a model that was not.
  template <detail::ModelLike... Models>
    requires(sizeof...(Models) > 0)
  [[nodiscard]] Region accumulate(Models&... models) {
    (check_prepared(detail::module_of(models), "accumulate"), ...);
    return accumulate();
  }

  /// Keeps gradients of the backwards inside local, and visible in `.grad`:
  /// those of all models, or of the one given.
  [[nodiscard]] Region no_sync();
  template <detail::ModelLike Model>
  [[nodiscard]] Region no_sync(Model& model) {
    return no_sync_of(detail::module_of(model));
  }
  /// Makes the next backward inside `no_sync` synchronise after all.
  void trigger_sync_in_backward();

  /// Lets processes run out of batches at different times: those that are done
  /// take part in the others' reductions. At the end all have the parameters
  /// of the process that trained longest. Collective.
  [[nodiscard]] Region join_uneven_inputs(
      std::optional<bool> even_batches = std::nullopt);

  /// Scales the gradients so that their norm is at most `max_norm`; returns
  /// the norm before, as a tensor.
  Tensor clip_grad_norm_(
      const std::vector<Tensor>& parameters,
      double max_norm,
      double norm_type = 2);
  void clip_grad_value_(
      const std::vector<Tensor>& parameters, double clip_value);
  /// Does nothing: after a `backward` that synchronises, `.grad` holds real
  /// values already, also with fp16. Here so that ported loops compile.
  void unscale_gradients() {}

  /// Switches autocast on for a scope, with the precision of this Accelerator.
  [[nodiscard]] std::unique_ptr<AutocastGuard> autocast(
      const AutocastKwargs& kwargs = {});

  /// Lets a GPU start a whole step at once. Returns a function that calls
  /// `function` with the same arguments, nests of tensors, and after a few
  /// calls records what it does on the GPU and replays that, once for each
  /// combination of shapes. `function` does a whole step (forward, `backward`,
  /// `optimizer.step()`, `zero_grad()`) and nothing that the host has to do
  /// each time; learning rates may change between calls, random numbers do. It
  /// returns nests of tensors or nothing. What cannot be recorded runs as it
  /// is, and a warning says why, once. See graph.h.
  ///
  /// The result must not outlive the Accelerator or `free_memory`. Defined in
  /// accelerator_nests.h.
  template <typename Function>
  [[nodiscard]] auto graph(Function function, const GraphOptions& options = {});

  // Results; the templates are defined in accelerator_nests.h ----------------

  template <typename Nest>
  [[nodiscard]] Nest gather(const Nest& nest) const;
  /// Gathers exactly the real rows: tensors with a row per sample of the
  /// current batch lose the rows that padding repeated, others are gathered
  /// as they are. Collective.
  template <typename Nest>
  [[nodiscard]] Nest gather_for_metrics(const Nest& nest) const;
  /// The same for a list of objects, one per sample.
  [[nodiscard]] std::vector<Json> gather_for_metrics(
      const std::vector<Json>& objects) const;
  template <typename Nest>
  [[nodiscard]] Nest reduce(
      const Nest& nest,
      Reduction reduction = Reduction::sum,
      double scale = 1.0) const;
  template <typename Nest>
  [[nodiscard]] Nest pad_across_processes(
      const Nest& nest, const PadOptions& options = {}) const;

  /// Records what LibTorch does until the result is destroyed or stopped, a
  /// trace per process; without an argument, as `profile_kwargs` says.
  [[nodiscard]] std::unique_ptr<Profiler> profile() const;
  [[nodiscard]] std::unique_ptr<Profiler> profile(
      const ProfileKwargs& kwargs) const;

  /// A loader like this one whose first loop begins `batches` batches later.
  template <typename Loader>
  [[nodiscard]] static Loader skip_first_batches(
      const Loader& loader, std::int64_t batches) {
    return loader.without_first(batches);
  }

  /// Tells every process, at its next `check_trigger`, that this one asked.
  void set_trigger();
  /// Whether any process has set the trigger since the last call. Collective.
  bool check_trigger();

  // Checkpoints --------------------------------------------------------------

  /// Saves everything a run needs to go on as if it had never stopped: models,
  /// optimizers, schedulers and loaders that were prepared, the scaler, random
  /// numbers, a half-finished accumulation, and what was registered. Without a
  /// folder it takes the next name of `ProjectConfiguration`. Returns the
  /// folder; it is complete when it has that name, or absent.
  ///
  /// Call it where the loop is between two steps: after `optimizer.step()` and
  /// `zero_grad()`. What was prepared must still exist, or have gone together
  /// with its model.
  ///
  /// Collective. Throws `IoError` on every process when one cannot write.
  std::filesystem::path save_state(
      const std::filesystem::path& output_dir,
      const SaveStateOptions& options = {});
  std::filesystem::path save_state(const SaveStateOptions& options = {});

  /// Goes back to a saved state, at any number of processes; without a folder
  /// to the newest complete one of `ProjectConfiguration`. Call it after
  /// `prepare`, outside of loops. Everything is checked before anything is
  /// changed.
  ///
  /// Collective. Throws `FormatError` that lists what is damaged or does not
  /// fit, `IoError` when there is no checkpoint.
  LoadStateReport load_state(
      const std::filesystem::path& input_dir,
      const LoadStateOptions& options = {});
  LoadStateReport load_state(const LoadStateOptions& options = {});

  /// Waits for a save in the background; throws what went wrong there.
  void wait_for_checkpoint();

  /// Saves and loads these objects too. Each has `state_dict()`, which returns
  /// `Json` or `TensorMap`, and a `load_state_dict` that takes it; the values
  /// are those of process 0. They must outlive the last call about checkpoints.
  template <typename... Objects>
  void register_for_checkpointing(Objects&... objects) {
    (register_one(objects), ...);
  }

  /// Saves and loads random numbers that LibTorch does not know, of another
  /// language for example: a byte tensor, of each process its own. A run that
  /// registers none leaves a saved one alone. Where the saved process had
  /// others, but not this one, it does not fit; where it had none, or did not
  /// exist, this one stays as it is, and the report says so in `derived`.
  void register_random_state(
      const std::string& name,
      std::function<Tensor()> save,
      std::function<void(const Tensor&)> load);

  using StateHook = std::function<void(
      std::vector<std::map<std::string, Tensor>>& weights,
      const std::filesystem::path& folder)>;
  /// Called before weights are saved or loaded, with those of each model. What
  /// a hook takes out is not saved, or not loaded. `folder` is the hooks' own
  /// inside the checkpoint: files written there are part of it, complete and
  /// verified like the others, and a load finds them there again. A weight that
  /// a hook kept out when it was saved is missing in a run without a hook for
  /// loading; in others it is the hook's to bring back, into the model or among
  /// `weights`. The result, when it is destroyed, removes the hook.
  [[nodiscard]] Region register_save_state_pre_hook(StateHook hook);
  [[nodiscard]] Region register_load_state_pre_hook(StateHook hook);

  /// Whether this process or another was asked to save and stop, by SIGTERM or
  /// SIGUSR1: true on every process at the same step, and from then on. The
  /// first call installs the handlers. End the program with
  /// `kPreemptedExitCode` to have it started again. Collective.
  bool checkpoint_requested();

  /// Counts the loop's steps and saves when it is time, or when
  /// `checkpoint_requested`. Call the result once per step; it returns whether
  /// it saved.
  ///
  ///     auto save = accelerator.save_every({.minutes = 10});
  ///     for (auto& batch : loader) { …; save(); }
  [[nodiscard]] std::function<bool()> save_every(
      const SaveEveryOptions& options);

  /// Parameters and buffers under the model's own names. The tensors are the
  /// model's, not copies; a tied one is there under each of its names.
  template <detail::ModelLike Model>
  [[nodiscard]] static std::map<std::string, Tensor> get_state_dict(
      Model& model) {
    return state_dict_of(detail::module_of(model));
  }

  /// Writes a model's weights as Hugging Face lays them out:
  /// `model.safetensors`, or `model-00001-of-0000n.safetensors` and so on with
  /// an index. Files of an earlier save are removed. A tied weight is written
  /// once, and a warning names it; `load_safetensors` gives it back under each
  /// name.
  ///
  /// The main process writes, or the main process of each node with
  /// `save_on_each_node`; not collective. Throws `StateError` for a model
  /// without values (on `meta`), `ArgumentError` when the folder is a file.
  template <detail::ModelLike Model>
  void save_model(
      Model& model,
      const std::filesystem::path& save_directory,
      const SaveModelOptions& options = {}) const {
    save_module(detail::module_of(model), save_directory, options);
  }

  /// Writes tensors or `Json` to a file, on the processes that `save_model`
  /// writes on. Not collective.
  template <typename Object>
  void save(const Object& object, const std::filesystem::path& path) const {
    if (saves_files()) {
      accelerate::save(object, path);
    }
  }

  /// Where checkpoints go, and the number of the next.
  const ProjectConfiguration& project_configuration() const;
  const std::filesystem::path& project_dir() const {
    return project_configuration().project_dir;
  }
  const std::filesystem::path& logging_dir() const {
    return project_configuration().logging_dir;
  }
  std::int64_t save_iteration() const {
    return project_configuration().iteration;
  }
  /// Updates of the optimizers so far, those of loaded runs included.
  std::int64_t step() const;

  // Processes ----------------------------------------------------------------

  const PartialState& state() const;
  const Group& group() const { return state().group(); }
  c10::Device device() const { return state().device(); }
  DistributedType distributed_type() const {
    return state().distributed_type();
  }
  std::int64_t num_processes() const { return state().num_processes(); }
  std::int64_t process_index() const { return state().process_index(); }
  std::int64_t local_process_index() const {
    return state().local_process_index();
  }
  bool is_main_process() const { return state().is_main_process(); }
  bool is_local_main_process() const { return state().is_local_main_process(); }
  bool is_last_process() const { return state().is_last_process(); }
  bool use_distributed() const { return state().use_distributed(); }
  /// Whether several processes each drive an accelerator of their own.
  bool multi_device() const {
    return use_distributed() && device().type() != c10::kCPU;
  }
  void wait_for_everyone() const { state().wait_for_everyone(); }
  [[nodiscard]] ProcessOrder main_process_first() const {
    return state().main_process_first();
  }
  [[nodiscard]] ProcessOrder local_main_process_first() const {
    return state().local_main_process_first();
  }
  template <typename F>
  [[nodiscard]] auto on_main_process(F function) const {
    return state().on_main_process(std::move(function));
  }
  template <typename F>
  [[nodiscard]] auto on_local_main_process(F function) const {
    return state().on_local_main_process(std::move(function));
  }
  template <typename F>
  [[nodiscard]] auto on_last_process(F function) const {
    return state().on_last_process(std::move(function));
  }
  template <typename F>
  [[nodiscard]] auto on_process(std::int64_t index, F function) const {
    return state().on_process(index, std::move(function));
  }
  template <typename F>
  [[nodiscard]] auto on_local_process(std::int64_t index, F function) const {
    return state().on_local_process(index, std::move(function));
  }
  template <typename T>
  [[nodiscard]] auto split_between_processes(
      const T& inputs, SplitOptions options = {}) const {
    return state().split_between_processes(inputs, options);
  }
  template <typename... Args>
  void print(const Args&... args) const {
    state().print(args...);
  }

  // Settings -----------------------------------------------------------------

  Precision mixed_precision() const;
  bool sync_gradients() const;
  void set_sync_gradients(bool sync);
  std::int64_t gradient_accumulation_steps() const;
  void set_gradient_accumulation_steps(std::int64_t steps);
  /// Whether the last optimizer step was dropped because of an overflow.
  bool optimizer_step_was_skipped() const;
  bool split_batches() const;
  std::optional<bool> dispatch_batches() const;
  bool even_batches() const;
  void set_even_batches(bool even);
  bool use_seedable_sampler() const;
  bool non_blocking() const;

  // The end ------------------------------------------------------------------

  /// Returns its argument: nothing was wrapped.
  template <typename Model>
  static Model& unwrap_model(Model& model) {
    return model;
  }
  /// Forgets everything that was prepared; what was prepared works on as it
  /// is, on its own. What was registered for checkpoints and hooks stay.
  /// Objects that are given are let go of (`release_memory`).
  template <typename... Objects>
  void free_memory(Objects&... objects) {
    forget_prepared();
    release_memory(objects...);
  }
  template <typename... Objects>
  void clear(Objects&... objects) {
    free_memory(objects...);
  }
  /// Waits for everyone and leaves the run. Collective.
  void end_training();

 private:
  friend class LocalSGD;
  class Impl;

  template <typename Object>
  void prepare_any(Object& object) {
    using T = std::remove_cv_t<Object>;
    if constexpr (detail::PointsTo<T, torch::optim::Optimizer>) {
      prepare_optimizer(object);
    } else if constexpr (detail::PointsTo<T, DataLoaderBase>) {
      prepare_data_loader(object);
    } else if constexpr (detail::PointsTo<T, LRScheduler>) {
      prepare_scheduler(object);
    } else if constexpr (detail::ModelLike<T>) {
      prepare_model(detail::module_of(object));
    } else {
      static_assert(
          detail::kNotPreparable<T>,
          "prepare takes torch::nn modules (also holders, shared_ptr and "
          "anything with .module()), torch::optim optimizers, "
          "accelerate::DataLoader and accelerate::LRScheduler; wrap one of "
          "LibTorch's own schedulers with accelerate::adapt() first");
    }
  }
  void check_prepared(const torch::nn::Module& model, const char* who) const;
  friend class detail::GraphedFunction;
  detail::GraphedFunction make_graph(const GraphOptions& options);
  Region no_sync_of(const torch::nn::Module& model);
  Region train_locally();
  void forget_prepared();
  bool saves_files() const;
  static std::map<std::string, Tensor> state_dict_of(
      const torch::nn::Module& model);
  void save_module(
      const torch::nn::Module& model,
      const std::filesystem::path& save_directory,
      const SaveModelOptions& options) const;
  std::vector<Tensor> gather_real_rows(
      const std::vector<Tensor>& tensors) const;

  template <typename Object>
  void register_one(Object& object) {
    if constexpr (detail::HasJsonState<Object>) {
      register_json(
          [&object] { return object.state_dict(); },
          [&object](const Json& state) { object.load_state_dict(state); });
    } else if constexpr (detail::HasTensorState<Object>) {
      register_tensors(
          [&object] { return object.state_dict(); },
          [&object](const std::map<std::string, Tensor>& state) {
            object.load_state_dict(state);
          });
    } else {
      static_assert(
          detail::kNotPreparable<Object>,
          "register_for_checkpointing takes objects with `Json state_dict()` "
          "and `load_state_dict(const Json&)`, or the same with TensorMap");
    }
  }
  void register_json(
      std::function<Json()> save, std::function<void(const Json&)> load);
  void register_tensors(
      std::function<std::map<std::string, Tensor>()> save,
      std::function<void(const std::map<std::string, Tensor>&)> load);

  std::unique_ptr<Impl> impl_;
};

}  // namespace accelerate
