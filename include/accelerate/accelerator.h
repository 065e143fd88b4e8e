// SPDX-License-Identifier: Apache-2.0
// The entry point of the library. With an Accelerator, the same training loop
// runs on any device, in any precision and with any number of processes.
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
#include "accelerate/log_values.h"
#include "accelerate/memory.h"
#include "accelerate/partial_state.h"
#include "accelerate/precision.h"
#include "accelerate/profiler.h"
#include "accelerate/saving.h"
#include "accelerate/tracker.h"

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

/// Returns `object` itself if it is a module. Otherwise returns the module that
/// a module holder or pointer refers to, or that `object.module()` returns.
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

/// A guard object returned by functions of `Accelerator` such as `no_sync` and
/// `accumulate`. The effect of the function lasts until `end` is called or the
/// `Region` is destroyed.
class ACCELERATE_API Region {
 public:
  /// `at_end` is called once, when the region ends.
  explicit Region(std::function<void()> at_end);
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  Region(Region&& other) noexcept;
  /// Same as `end`, but prints errors to stderr instead of throwing.
  ~Region();
  /// Ends the region now. Later calls do nothing. Rethrows exceptions from
  /// `at_end`.
  void end();

 private:
  std::function<void()> at_end_;
};

/// Adapts the training loop of one process to the run's devices, precision and
/// number of processes.
///
/// Construct one Accelerator per process; the constructor connects the process
/// to the other processes (see `PartialState`). Objects passed to `prepare`
/// work the same way with any number of processes: `backward` averages the
/// gradients, loaders give each process its share of the batches, and
/// schedulers take the right number of steps. The objects are not wrapped; use
/// them as before.
///
/// Gradients: after `backward`, `.grad` holds the average over all processes.
/// During gradient accumulation, `.grad` stays undefined until the last
/// micro-step. Until then, `optimizer.step()` and `zero_grad()` do nothing,
/// whichever optimizer is used.
///
/// Thread safety: use an Accelerator only from the thread that runs the
/// training loop.
class ACCELERATE_API Accelerator {
 public:
  explicit Accelerator(const AcceleratorOptions& options = {});
  /// Uses `state` instead of the global state of this process. For tests that
  /// run each rank as a thread.
  Accelerator(PartialState state, const AcceleratorOptions& options);
  Accelerator(const Accelerator&) = delete;
  Accelerator& operator=(const Accelerator&) = delete;
  ~Accelerator();

  // Preparation --------------------------------------------------------------

  /// Prepares each object in place. The order does not matter, and preparing an
  /// object twice is harmless. Takes modules (also module holders,
  /// `shared_ptr`s to modules and objects with `.module()`), optimizers,
  /// `DataLoader`s and `LRScheduler`s.
  ///
  /// Collective for modules and loaders. The parameters and buffers of a module
  /// are copied from process 0 to all processes. Throws a `MismatchError` that
  /// lists the differences if the models differ between processes.
  template <typename... Objects>
  void prepare(Objects&... objects) {
    (prepare_any(objects), ...);
  }

  /// Prepares a single model; see `prepare`.
  void prepare_model(
      torch::nn::Module& model, const PrepareModelOptions& options = {});
  /// Prepares a single optimizer; see `prepare`.
  void prepare_optimizer(torch::optim::Optimizer& optimizer);
  /// Prepares a single loader; see `prepare`. `device_placement`: whether
  /// batches are moved to the Accelerator's device. Default:
  /// `AcceleratorOptions::device_placement`.
  void prepare_data_loader(
      DataLoaderBase& loader,
      std::optional<bool> device_placement = std::nullopt);
  /// Prepares a single scheduler; see `prepare`.
  void prepare_scheduler(LRScheduler& scheduler);

  /// Prepares a model that is not a `torch::nn::Module`, such as a model from a
  /// binding to another language. `names[i]` is the name of `tensors[i]`.
  /// Tensors that do not require gradients are copied from process 0 but not
  /// trained.
  ///
  /// Collective.
  void prepare_parameters(
      const std::vector<std::string>& names,
      const std::vector<Tensor>& tensors,
      const std::vector<Tensor>& buffers);

  /// Synchronizes the batch norms in `model`. In training, a synchronized batch
  /// norm computes the mean and variance over the rows of all processes, so the
  /// running statistics are equal on all processes. Without this call, each
  /// process uses the statistics of its own rows. Evaluation mode is not
  /// affected. Corresponds to `torch.nn.SyncBatchNorm.convert_sync_batchnorm`
  /// in Python; changes `model` in place. A copy of `model` is not converted.
  ///
  /// Must be called on every process, before or after `prepare`. Each forward
  /// pass of a batch norm in training mode is then collective, and so is each
  /// backward pass, even inside `no_sync`. Throws `ArgumentError` if a batch
  /// norm has neither a weight nor running statistics. `backward` throws
  /// `StateError` if a batch norm was used but could not be synchronized.
  template <detail::ModelLike Model>
  void convert_sync_batchnorm(Model& model) {
    convert_batch_norms_of(detail::module_of(model));
  }

  // Training -----------------------------------------------------------------

  /// Computes the gradients of `loss` and adds them to the accumulated
  /// gradients. The gradients are scaled so that all micro-steps of one update
  /// together are equivalent to one large batch.
  ///
  /// Collective. Throws `ArgumentError` unless `loss` is a scalar that requires
  /// gradients, and `RankError` if another process failed in its backward pass.
  void backward(const Tensor& loss, const BackwardOptions& options = {});

  /// Opens a region for one micro-step of gradient accumulation, and decides
  /// whether the backward pass of this micro-step synchronizes gradients.
  /// Applies to all prepared objects. Throws `StateError` inside the region of
  /// another micro-step.
  ///
  ///     for (auto& batch : loader) {
  ///       auto step = accelerator.accumulate();
  ///       …
  ///     }
  [[nodiscard]] Region accumulate();
  /// Like `accumulate()`, but also sets the weight of this micro-batch (such as
  /// its number of tokens). For use with `AccumulationWeighting::weighted`.
  [[nodiscard]] Region accumulate(double weight);
  /// Like `accumulate()`, but takes models, as Python's API does. All prepared
  /// models accumulate gradients, not only `models`. Throws `StateError` for a
  /// model that was not prepared.
  template <detail::ModelLike... Models>
    requires(sizeof...(Models) > 0)
  [[nodiscard]] Region accumulate(Models&... models) {
    (check_prepared(detail::module_of(models), "accumulate"), ...);
    return accumulate();
  }

  /// Opens a region in which backward passes do not synchronize gradients:
  /// `.grad` holds only this process's gradients. Applies to all prepared
  /// models, or only to `model` if it is passed.
  [[nodiscard]] Region no_sync();
  template <detail::ModelLike Model>
  [[nodiscard]] Region no_sync(Model& model) {
    return no_sync_of(detail::module_of(model));
  }
  /// Makes the next backward pass synchronize gradients, even inside a
  /// `no_sync` region.
  void trigger_sync_in_backward();

  /// Opens a region in which processes may run out of batches at different
  /// times. Processes without batches still take part in the gradient
  /// reductions of the other processes. At the end of the region, all processes
  /// get the parameters and buffers of the process that took the most steps. If
  /// `even_batches` is set, it overrides the setting of all prepared loaders
  /// until the region ends. Collective.
  [[nodiscard]] Region join_uneven_inputs(
      std::optional<bool> even_batches = std::nullopt);

  /// Scales the gradients of `parameters` so that their total norm is at most
  /// `max_norm`. Returns the total norm before scaling, as a tensor.
  Tensor clip_grad_norm_(
      const std::vector<Tensor>& parameters,
      double max_norm,
      double norm_type = 2);
  void clip_grad_value_(
      const std::vector<Tensor>& parameters, double clip_value);
  /// Does nothing: after a `backward` that synchronizes gradients, `.grad`
  /// already holds unscaled values, even with fp16. Exists so that training
  /// loops ported from Python compile.
  void unscale_gradients() {}

  /// Enables autocast, in the precision of this Accelerator, until the returned
  /// guard is destroyed.
  [[nodiscard]] std::unique_ptr<AutocastGuard> autocast(
      const AutocastKwargs& kwargs = {});

  /// Wraps a training step so that it runs as one CUDA graph. The result
  /// takes the same arguments as `function`: tensors or nested containers of
  /// tensors (see nest.h). The first calls run `function` eagerly. A later call
  /// captures the GPU work of `function`, once for each combination of shapes,
  /// and all further calls replay this work. `function` runs a whole step
  /// (forward, `backward`, `optimizer.step()`, `zero_grad()`) and returns a
  /// nest of tensors or nothing. `function` must not contain work that the CPU
  /// has to do in every step. Learning rates may change between calls; random
  /// numbers differ in every call. If `function` cannot be captured, it runs
  /// eagerly, and a single warning gives the reason. See graph.h.
  ///
  /// Do not use the returned function after `free_memory` or after the
  /// Accelerator is destroyed. Defined in accelerator_nests.h.
  template <typename Function>
  [[nodiscard]] auto graph(Function function, const GraphOptions& options = {});

  // Results; the templates are defined in accelerator_nests.h ----------------

  /// Concatenates each tensor in `nest` across processes along dimension 0, and
  /// returns the result on every process. Collective.
  template <typename Nest>
  [[nodiscard]] Nest gather(const Nest& nest) const;
  /// Gathers tensors without padding rows, which repeat samples to fill the
  /// last batch. Padding rows are dropped only from tensors with one row per
  /// sample in the current batch; other tensors are gathered completely.
  /// Collective.
  template <typename Nest>
  [[nodiscard]] Nest gather_for_metrics(const Nest& nest) const;
  /// Gathers lists with one element per sample in the current batch, without
  /// the elements that belong to padding rows. Collective.
  [[nodiscard]] std::vector<Json> gather_for_metrics(
      const std::vector<Json>& objects) const;
  /// Reduces each tensor in `nest` across processes and multiplies the result
  /// by `scale`. Collective.
  template <typename Nest>
  [[nodiscard]] Nest reduce(
      const Nest& nest,
      Reduction reduction = Reduction::sum,
      double scale = 1.0) const;
  /// Pads each tensor in dimension `options.dim` to the largest size that this
  /// tensor has on any process. Collective.
  template <typename Nest>
  [[nodiscard]] Nest pad_across_processes(
      const Nest& nest, const PadOptions& options = {}) const;

  /// Records LibTorch's operations until the returned profiler is stopped or
  /// destroyed. Each process writes its own trace. Without `kwargs`, uses
  /// `AcceleratorOptions::profile_kwargs`.
  [[nodiscard]] std::unique_ptr<Profiler> profile() const;
  [[nodiscard]] std::unique_ptr<Profiler> profile(
      const ProfileKwargs& kwargs) const;

  /// Returns a copy of the loader. The first loop over the copy skips the first
  /// `batches` batches.
  template <typename Loader>
  [[nodiscard]] static Loader skip_first_batches(
      const Loader& loader, std::int64_t batches) {
    return loader.without_first(batches);
  }

  /// Sets the trigger: the next call to `check_trigger` returns true on every
  /// process.
  void set_trigger();
  /// Returns whether any process has set the trigger since the last call to
  /// `check_trigger`. Collective.
  bool check_trigger();

  // Checkpoints --------------------------------------------------------------

  /// Saves everything a run needs to continue as if it had never stopped:
  /// prepared models, optimizers, schedulers and loaders, the gradient scaler,
  /// random states, unfinished gradient accumulation, and registered objects.
  /// Without `output_dir`, `ProjectConfiguration` determines the folder.
  /// Returns the path of the folder. The folder appears at this path only once
  /// the checkpoint is complete.
  ///
  /// Call `save_state` between two steps of the training loop, after
  /// `optimizer.step()` and `zero_grad()`. If you destroy a prepared optimizer
  /// but keep its model, or destroy a prepared model that no `shared_ptr` owns,
  /// call `free_memory` before the next save.
  ///
  /// Collective. Throws `IoError` on every process if any process cannot write.
  std::filesystem::path save_state(
      const std::filesystem::path& output_dir,
      const SaveStateOptions& options = {});
  std::filesystem::path save_state(const SaveStateOptions& options = {});

  /// Restores a saved state. The saved run may have had a different number of
  /// processes. Without `input_dir`, loads the newest complete checkpoint in
  /// the folder that `ProjectConfiguration` determines. Call `load_state` after
  /// `prepare`, outside of any loop over a prepared loader. The whole
  /// checkpoint is checked before anything is changed.
  ///
  /// Collective. Throws a `FormatError` that lists everything that is damaged
  /// or does not fit this run, and `IoError` if there is no checkpoint.
  LoadStateReport load_state(
      const std::filesystem::path& input_dir,
      const LoadStateOptions& options = {});
  LoadStateReport load_state(const LoadStateOptions& options = {});

  /// Waits until a background save has finished. If the save failed, rethrows
  /// its error.
  void wait_for_checkpoint();

  /// Includes the state of these objects in checkpoints. Each object must have
  /// `state_dict()`, which returns `Json` or `TensorMap`, and
  /// `load_state_dict`, which takes the same type. Only the state on process 0
  /// is saved. The objects must outlive the last call that saves or loads a
  /// checkpoint.
  template <typename... Objects>
  void register_for_checkpointing(Objects&... objects) {
    (register_one(objects), ...);
  }

  /// Makes checkpoints include the state of a random number generator outside
  /// LibTorch, such as a generator in another language. `save` returns the
  /// state on this process as a byte tensor, and `load` restores the state.
  ///
  /// `load_state` ignores saved states that are not registered. If the
  /// checkpoint has some of this rank's registered states but not all of them,
  /// it does not fit this run (see `LoadStateOptions::strict`). If the
  /// checkpoint has none of them, for example because this rank did not exist
  /// in the saved run, the generators stay unchanged and
  /// `LoadStateReport::derived` lists them.
  void register_random_state(
      const std::string& name,
      std::function<Tensor()> save,
      std::function<void(const Tensor&)> load);

  using StateHook = std::function<void(
      std::vector<std::map<std::string, Tensor>>& weights,
      const std::filesystem::path& folder)>;
  /// Registers a hook that is called before weights are saved (or loaded).
  /// `weights` holds the weights of each model. Weights that the hook removes
  /// from `weights` are not saved (or not loaded). `folder` is the
  /// checkpoint's folder for hooks: files that a hook writes to `folder` are
  /// part of the checkpoint, are verified like its other files, and are
  /// available when the checkpoint is loaded. If a save hook removed a weight,
  /// a load hook must restore this weight, in the model or in `weights`.
  /// Without a load hook, the weight counts as missing. Destroying the returned
  /// `Region` removes the hook.
  [[nodiscard]] Region register_save_state_pre_hook(StateHook hook);
  [[nodiscard]] Region register_load_state_pre_hook(StateHook hook);

  /// Returns whether any process has received SIGTERM or SIGUSR1, the signals
  /// that ask a run to save and stop. The result is the same on every process;
  /// once it is true, it stays true. The first call installs the signal
  /// handlers. After saving, exit with `kPreemptedExitCode` to request a
  /// restart. Collective.
  bool checkpoint_requested();

  /// Returns a function that saves the state when a save is due, or when
  /// `checkpoint_requested` returns true for the first time. Call the returned
  /// function once in each step of the training loop; it returns whether it
  /// saved.
  ///
  ///     auto save = accelerator.save_every({.minutes = 10});
  ///     for (auto& batch : loader) { …; save(); }
  [[nodiscard]] std::function<bool()> save_every(
      const SaveEveryOptions& options);

  /// Returns the parameters and buffers of a model by name. The tensors are not
  /// copied. A tied weight appears under each of its names.
  template <detail::ModelLike Model>
  [[nodiscard]] static std::map<std::string, Tensor> get_state_dict(
      Model& model) {
    return state_dict_of(detail::module_of(model));
  }

  /// Writes a model's weights in Hugging Face's layout: `model.safetensors`, or
  /// several files named `model-00001-of-0000n.safetensors` and so on, with an
  /// index. Files from an earlier save are removed. A tied weight is written
  /// once, and a warning names it; `load_safetensors` returns it under each of
  /// its names.
  ///
  /// Only the main process writes. If `ProjectConfiguration::save_on_each_node`
  /// is true, the local main process of each node writes instead. Not
  /// collective. Throws `StateError` for a model on the `meta` device, whose
  /// tensors have no values, and `ArgumentError` when `save_directory` is a
  /// file.
  template <detail::ModelLike Model>
  void save_model(
      Model& model,
      const std::filesystem::path& save_directory,
      const SaveModelOptions& options = {}) const {
    save_module(detail::module_of(model), save_directory, options);
  }

  /// Writes tensors or a `Json` value to a file, but only on the processes on
  /// which `save_model` writes. Not collective.
  template <typename Object>
  void save(const Object& object, const std::filesystem::path& path) const {
    if (saves_files()) {
      accelerate::save(object, path);
    }
  }

  /// Returns the folders of this run and the number of the next checkpoint.
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
  /// Returns the number of optimizer updates so far. After `load_state`, this
  /// includes the updates of the saved run.
  std::int64_t step() const;

  // Trackers -----------------------------------------------------------------

  /// Starts the trackers of `AcceleratorOptions::log_with` and gives them the
  /// configuration of the run. `init_kwargs` has options for each tracker, by
  /// the tracker's name. A second call finishes the trackers and starts a new
  /// run.
  ///
  /// Must be called on every process. Only the main process starts trackers,
  /// except for trackers whose `main_process_only` is false: every process
  /// starts these. Not collective. Throws `IoError` if a tracker cannot write
  /// its files.
  void init_trackers(
      const std::string& project_name,
      const Json& config = {},
      const Json& init_kwargs = {});
  /// Passes values to all trackers. Returns immediately: tensors on a device
  /// are read when they are ready, and trackers work on their own threads. Does
  /// nothing on a process without trackers.
  ///
  /// Throws `ArgumentError` for a tensor that does not have exactly one
  /// element, and `StateError` before `init_trackers`.
  void log(const LogValues& values, const LogValuesOptions& options = {});
  /// Passes images to all trackers. Each value is a tensor: uint8, or real
  /// numbers from 0 to 1, with 1, 3 or 4 channels.
  void log_images(
      const LogValues& values, const LogImagesOptions& options = {});
  /// Passes a table to all trackers. Throws `ArgumentError` if a row does not
  /// have one value for each column.
  void log_table(
      const std::string& table_name,
      const std::vector<std::string>& columns,
      const std::vector<std::vector<Json>>& rows,
      const LogValuesOptions& options = {});
  /// Returns the tracker with this name. On a process that does not have the
  /// tracker, returns a tracker that does nothing. Throws `ArgumentError` for a
  /// name that is not in `log_with`.
  std::shared_ptr<GeneralTracker> get_tracker(const std::string& name) const;
  /// Waits until the trackers have handled all values, and closes them.
  /// `end_training` and the destructor do the same.
  void finish_trackers();

  // Processes; PartialState documents these functions -------------------------

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
  /// Returns whether there are several processes and they use accelerator
  /// devices, not the CPU.
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
  /// Returns whether the last optimizer step was skipped because gradients
  /// overflowed; always false without fp16. Waits for the device once per step.
  bool optimizer_step_was_skipped() const;
  bool split_batches() const;
  std::optional<bool> dispatch_batches() const;
  bool even_batches() const;
  void set_even_batches(bool even);
  bool use_seedable_sampler() const;
  bool non_blocking() const;

  // Cleanup ------------------------------------------------------------------

  /// Returns `model` itself, because `prepare` does not wrap models.
  template <typename Model>
  static Model& unwrap_model(Model& model) {
    return model;
  }
  /// Undoes `prepare` for all prepared objects and releases `objects` (see
  /// `release_memory`). Prepared objects that still exist keep working, but
  /// without this Accelerator. Hooks, and objects registered for checkpoints,
  /// stay registered.
  template <typename... Objects>
  void free_memory(Objects&... objects) {
    forget_prepared();
    release_memory(objects...);
  }
  /// Same as `free_memory`.
  template <typename... Objects>
  void clear(Objects&... objects) {
    free_memory(objects...);
  }
  /// Waits for a background save, finishes the trackers, waits for all
  /// processes, and destroys the process group. Collective.
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
  void check_prepared(const torch::nn::Module& model, const char* caller) const;
  friend class detail::GraphedFunction;
  detail::GraphedFunction make_graph(const GraphOptions& options);
  void convert_batch_norms_of(torch::nn::Module& model);
  Region begin_micro_step(std::optional<double> weight);
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
          "and `load_state_dict(const Json&)`, or the same "
          "functions with TensorMap");
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
