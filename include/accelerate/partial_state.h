// SPDX-License-Identifier: Apache-2.0
// The rank, device and process group of this process.
//
//     accelerate::PartialState state;
//     state.print("hello from ", state.num_processes(), " processes");
//     auto prompts = state.split_between_processes(all_prompts);
//     state.wait_for_everyone();
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <c10/core/Device.h>

#include "accelerate/export.h"
#include "accelerate/fwd.h"
#include "accelerate/group.h"

namespace accelerate {

/// Whether a run has several processes, and whether they use CPUs or GPUs;
/// `xla` if one process uses all XLA devices.
enum class DistributedType { no, multi_cpu, multi_gpu, xla };

/// Returns the name that Hugging Face Accelerate uses for `type`: `NO`,
/// `MULTI_CPU`, `MULTI_GPU` or `XLA`.
ACCELERATE_API std::string_view name_of(DistributedType type);

/// How the processes of a run connect to each other. A field that is not set
/// takes the value that the launcher passed to the process, or else the
/// default.
struct InitProcessGroupKwargs {
  std::optional<Backend> backend = std::nullopt;
  /// How processes find each other: `env://`, `tcp://host:port` or
  /// `file:///path`.
  std::optional<std::string> init_method = std::nullopt;
  /// How long a rank waits for other ranks before it throws. Default: 600 s.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  /// How long a rank waits before it prints a warning that names the late
  /// ranks. Default: 30 s, or `timeout` if `timeout` is shorter.
  std::optional<std::chrono::milliseconds> warn_after = std::nullopt;
};
using InitProcessGroupOptions = InitProcessGroupKwargs;

/// Options for a `PartialState`. A field that is not set takes the value that
/// the launcher passed to the process, or else the default.
struct PartialStateOptions {
  /// Whether to use the CPU even if there is an accelerator.
  std::optional<bool> cpu = std::nullopt;
  /// The device of this process, for example `torch::kXLA`. If not set, the
  /// environment variables and the hardware determine the device.
  std::optional<c10::Device> device = std::nullopt;
  InitProcessGroupKwargs init_process_group = {};
  /// Environment variables to read instead of the environment of this process.
  std::optional<std::map<std::string, std::string>> environment = std::nullopt;
};

/// How `split_between_processes` splits inputs whose length is not a multiple
/// of the number of processes.
struct SplitOptions {
  /// Whether to extend shorter blocks by repeating their last element, so that
  /// every process gets the same number of elements.
  bool apply_padding = false;
};

/// A subset of a dataset with a function `get(index)`. The subset is also a
/// dataset, so a `DataLoader` accepts it. Returned by
/// `split_between_processes`.
template <typename Dataset>
class DatasetPart {
 public:
  DatasetPart(Dataset dataset, std::vector<std::int64_t> indices)
      : dataset_(std::move(dataset)), indices_(std::move(indices)) {}

  std::size_t size() const { return indices_.size(); }
  auto get(std::int64_t index) const
    requires requires(const Dataset& dataset) { dataset.get(index); }
  {
    return dataset_.get(indices_.at(static_cast<std::size_t>(index)));
  }
  /// Like the overload above, for datasets whose `get` is not const, such as
  /// LibTorch's.
  auto get(std::int64_t index)
    requires(!requires(const Dataset& dataset) { dataset.get(index); })
  {
    return dataset_.get(
        static_cast<std::size_t>(indices_.at(static_cast<std::size_t>(index))));
  }

 private:
  Dataset dataset_;
  std::vector<std::int64_t> indices_;
};

/// Lets one process, or one process per machine, run a block before the other
/// processes. Returned by `PartialState::main_process_first` and
/// `PartialState::local_main_process_first`.
class ACCELERATE_API ProcessOrder {
 public:
  ProcessOrder(Group group, bool goes_first);
  ProcessOrder(const ProcessOrder&) = delete;
  ProcessOrder& operator=(const ProcessOrder&) = delete;
  /// Same as `finish`, but prints errors to stderr instead of throwing.
  ~ProcessOrder();

  /// Ends the block before the end of the scope.
  void finish();

 private:
  Group group_;
  bool must_signal_;
};

/// One process of a run: its index, its device, and the process group of all
/// processes.
///
/// `PartialState state;` reads the environment variables of the launcher
/// (`accelerate launch`, torchrun, Open MPI, MPICH, MVAPICH or Slurm) and
/// connects this process to the other processes. Without such variables, the
/// run has a single process. All objects constructed this way are handles to
/// the same state; constructing another object with different options throws
/// `StateError`. The constructors that take a `Group` create separate states,
/// for tests.
///
/// Thread safety: several threads may call getters such as `device` at once.
/// Use all other functions from only one thread at a time.
class ACCELERATE_API PartialState {
 public:
  /// Creates a handle to the state of this process. The first call connects
  /// this process to the other processes.
  ///
  /// The first call is collective. Throws `ConfigError` when the environment
  /// variables are incomplete or contradict each other, and `DistributedError`
  /// when a rank is missing.
  explicit PartialState(const PartialStateOptions& options = {});

  /// Creates a separate state for an existing process group whose ranks are all
  /// on one machine.
  explicit PartialState(Group group);
  PartialState(Group group, c10::Device device);

  PartialState(const PartialState&);
  PartialState(PartialState&&) noexcept;
  PartialState& operator=(const PartialState&);
  PartialState& operator=(PartialState&&) noexcept;
  ~PartialState();

  /// Drops the state of this process; the next `PartialState` connects to the
  /// other processes again. Existing handles keep the old state alive.
  static void reset();
  /// Returns whether this process has a state.
  static bool is_initialized();

  std::int64_t process_index() const;
  std::int64_t num_processes() const;
  std::int64_t local_process_index() const;
  std::int64_t local_num_processes() const;
  std::int64_t node_index() const;
  std::int64_t num_nodes() const;
  c10::Device device() const;
  DistributedType distributed_type() const;
  /// Returns the name of the backend, or `none` if there is only one process.
  std::string backend() const;
  /// Returns the launcher that started this process: `none`, `torchrun`,
  /// `Open MPI`, …
  std::string launcher() const;
  /// Returns whether `debug_launcher` or `notebook_launcher` forked this
  /// process.
  bool fork_launched() const;
  /// Returns whether the environment variable `ACCELERATE_DEBUG_MODE` is true.
  bool debug() const;
  const Group& group() const;

  bool use_distributed() const { return num_processes() > 1; }
  bool is_main_process() const { return process_index() == 0; }
  bool is_local_main_process() const { return local_process_index() == 0; }
  bool is_last_process() const {
    return process_index() == num_processes() - 1;
  }

  /// Blocks until every process has called `wait_for_everyone`. Collective.
  void wait_for_everyone() const;

  /// Lets the main process run the rest of the scope before the other
  /// processes. Use it for work whose result the other processes reuse, such as
  /// a download.
  ///
  ///     {
  ///       auto order = state.main_process_first();
  ///       dataset = load_and_cache(path);
  ///     }
  ///
  /// Collective.
  [[nodiscard]] ProcessOrder main_process_first() const;
  /// Same as `main_process_first`, but the local main process of each machine
  /// runs the scope first.
  [[nodiscard]] ProcessOrder local_main_process_first() const;

  /// Wraps `function` so that it runs only on the main process. The wrapped
  /// function returns an `optional` that is empty on all other processes, or
  /// nothing if `function` returns nothing.
  template <typename F>
  [[nodiscard]] auto on_main_process(F function) const {
    return only_if(is_main_process(), std::move(function));
  }
  template <typename F>
  [[nodiscard]] auto on_local_main_process(F function) const {
    return only_if(is_local_main_process(), std::move(function));
  }
  template <typename F>
  [[nodiscard]] auto on_last_process(F function) const {
    return only_if(is_last_process(), std::move(function));
  }
  template <typename F>
  [[nodiscard]] auto on_process(std::int64_t index, F function) const {
    check_process("on_process", index, num_processes());
    return only_if(process_index() == index, std::move(function));
  }
  template <typename F>
  [[nodiscard]] auto on_local_process(std::int64_t index, F function) const {
    check_process("on_local_process", index, local_num_processes());
    return only_if(local_process_index() == index, std::move(function));
  }

  /// Returns this process's contiguous block of `inputs`. If the length is not
  /// a multiple of the number of processes, the first processes get one more
  /// element each. Accepts a vector; a tuple or array with elements of one type
  /// (returns a vector); a tensor (split along dimension 0); a dataset with
  /// `size()` and `get(index)`; or a map whose values are vectors or tensors of
  /// the same length. Does not change `inputs`.
  template <typename T>
  [[nodiscard]] std::vector<T> split_between_processes(
      const std::vector<T>& inputs, SplitOptions options = {}) const {
    std::vector<T> part;
    for (const std::int64_t i : split_indices(inputs.size(), options)) {
      part.push_back(inputs[static_cast<std::size_t>(i)]);
    }
    return part;
  }
  template <typename T, typename... Same>
    requires(std::is_same_v<T, Same> && ...)
  [[nodiscard]] std::vector<T> split_between_processes(
      const std::tuple<T, Same...>& inputs, SplitOptions options = {}) const {
    return split_between_processes(as_vector<T>(inputs), options);
  }
  template <typename T, std::size_t N>
  [[nodiscard]] std::vector<T> split_between_processes(
      const std::array<T, N>& inputs, SplitOptions options = {}) const {
    return split_between_processes(as_vector<T>(inputs), options);
  }
  [[nodiscard]] Tensor split_between_processes(
      const Tensor& inputs, SplitOptions options = {}) const;
  template <typename Dataset>
    requires requires(Dataset& dataset, std::size_t index) {
      dataset.size();
      dataset.get(index);
    }
  [[nodiscard]] DatasetPart<Dataset> split_between_processes(
      const Dataset& inputs, SplitOptions options = {}) const {
    std::size_t length = 0;
    if constexpr (requires { inputs.size().value(); }) {
      // `size()` of a LibTorch dataset may be empty.
      const auto size = inputs.size();
      length = size.has_value() ? size.value() : refuse_unknown_length();
    } else {
      length = static_cast<std::size_t>(inputs.size());
    }
    return {inputs, split_indices(length, options)};
  }
  /// Splits each value in the map. If the lengths of the values differ, throws
  /// an `ArgumentError` that lists the lengths.
  template <typename Value>
  [[nodiscard]] std::map<std::string, Value> split_between_processes(
      const std::map<std::string, Value>& inputs,
      SplitOptions options = {}) const {
    std::map<std::string, std::int64_t> lengths;
    for (const auto& [key, value] : inputs) {
      lengths[key] = length_of(value);
    }
    check_equal_lengths(lengths);
    std::map<std::string, Value> part;
    for (const auto& [key, value] : inputs) {
      part.emplace(key, split_between_processes(value, options));
    }
    return part;
  }

  /// Prints the arguments and a newline to stdout, but only on the first
  /// process on each machine.
  template <typename... Args>
  void print(const Args&... args) const {
    if (is_local_main_process()) {
      std::ostringstream line;
      (line << ... << args);
      print_line(line.str());
    }
  }

  /// Makes this process leave the process group; later collectives throw
  /// `StateError`.
  void destroy_process_group();

 private:
  class Impl;

  template <typename F>
  static auto only_if(bool runs_here, F function) {
    return [runs_here, function = std::move(function)](auto&&... args) mutable {
      using Result = std::invoke_result_t<F&, decltype(args)...>;
      if constexpr (std::is_void_v<Result>) {
        if (runs_here) {
          function(std::forward<decltype(args)>(args)...);
        }
      } else {
        return runs_here ? std::optional<Result>(
                               function(std::forward<decltype(args)>(args)...))
                         : std::nullopt;
      }
    };
  }

  template <typename T, typename Sequence>
  static std::vector<T> as_vector(const Sequence& sequence) {
    return std::apply(
        [](const auto&... items) { return std::vector<T>{items...}; },
        sequence);
  }

  static void check_process(
      const char* name, std::int64_t index, std::int64_t count);
  static void check_equal_lengths(
      const std::map<std::string, std::int64_t>& lengths);
  static void print_line(const std::string& line);
  static std::int64_t length_of(const Tensor& tensor);
  template <typename T>
  static std::int64_t length_of(const std::vector<T>& values) {
    return static_cast<std::int64_t>(values.size());
  }
  [[noreturn]] static std::size_t refuse_unknown_length();
  std::vector<std::int64_t> split_indices(
      std::size_t length, SplitOptions options) const;

  std::shared_ptr<Impl> impl_;
};

/// One process's contiguous block of a sequence: `[begin, end)`.
struct SplitRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
/// Returns the block of process `process_index` in a sequence of `length`
/// elements.
ACCELERATE_API SplitRange split_range(
    std::int64_t length,
    std::int64_t process_index,
    std::int64_t num_processes);

}  // namespace accelerate
