// SPDX-License-Identifier: Apache-2.0
// Who this process is among those of its run.
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

/// How the processes of a run work together.
enum class DistributedType { no, multi_cpu, multi_gpu };

/// The peer's word for it: `NO`, `MULTI_CPU`, `MULTI_GPU`.
ACCELERATE_API std::string_view name_of(DistributedType type);

/// How processes find each other. A field left out keeps the launcher's
/// choice, or the default.
struct InitProcessGroupKwargs {
  std::optional<Backend> backend = std::nullopt;
  /// `env://`, `tcp://host:port` or `file:///path`.
  std::optional<std::string> init_method = std::nullopt;
  /// A rank that is later than this makes the others throw; 600 s.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  /// A rank that is later than this is named in a warning; 30 s, or the
  /// timeout where that is shorter.
  std::optional<std::chrono::milliseconds> warn_after = std::nullopt;
};
using InitProcessGroupOptions = InitProcessGroupKwargs;

/// How a `PartialState` is set up. A field left out keeps the launcher's
/// choice, or the default.
struct PartialStateOptions {
  /// Use the CPU even if there is an accelerator.
  std::optional<bool> cpu = std::nullopt;
  InitProcessGroupKwargs init_process_group = {};
  /// Variables to read instead of the process's own.
  std::optional<std::map<std::string, std::string>> environment = std::nullopt;
};

/// How `split_between_processes` deals with lengths that do not divide.
struct SplitOptions {
  /// Repeats the last element, so that each process gets equally many.
  bool apply_padding = false;
};

/// Some elements of a dataset that has `get(index)`: a dataset itself, which a
/// `DataLoader` takes. Made by `split_between_processes`.
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
  /// LibTorch's datasets may change when they are read.
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

/// Lets one process through a block before the others. Made by
/// `main_process_first`; see there.
class ACCELERATE_API ProcessOrder {
 public:
  ProcessOrder(Group group, bool goes_first);
  ProcessOrder(const ProcessOrder&) = delete;
  ProcessOrder& operator=(const ProcessOrder&) = delete;
  /// As `finish`, but reports an error to stderr instead of throwing.
  ~ProcessOrder();

  /// Ends the block before the end of the scope.
  void finish();

 private:
  Group group_;
  bool must_signal_;
};

/// One process of a run: its index, its device, and the group of all.
///
/// `PartialState state;` reads the launcher's variables (torchrun's, Open
/// MPI's, MPICH's, Slurm's; none of them means a single process), joins the
/// others and returns. Every object made this way is a handle to the one state
/// of the process; a later one with options that differ throws `StateError`.
/// Tests make separate states with the second constructor.
///
/// Thread safety: one thread at a time, except the plain getters.
class ACCELERATE_API PartialState {
 public:
  /// The state of this process; the first one joins the run.
  ///
  /// Collective the first time. Throws `ConfigError` when the environment is
  /// half set or contradicts itself, `DistributedError` when a rank is missing.
  explicit PartialState(const PartialStateOptions& options = {});

  /// A state of its own over a group that exists, all ranks on one host.
  explicit PartialState(Group group);
  PartialState(Group group, c10::Device device);

  PartialState(const PartialState&);
  PartialState(PartialState&&) noexcept;
  PartialState& operator=(const PartialState&);
  PartialState& operator=(PartialState&&) noexcept;
  ~PartialState();

  /// Forgets the state of this process; the next `PartialState` joins anew.
  /// Handles that exist keep the old one alive.
  static void reset();
  /// Whether this process has a state.
  static bool is_initialized();

  std::int64_t process_index() const;
  std::int64_t num_processes() const;
  std::int64_t local_process_index() const;
  std::int64_t local_num_processes() const;
  std::int64_t node_index() const;
  std::int64_t num_nodes() const;
  c10::Device device() const;
  DistributedType distributed_type() const;
  /// Name of the backend; `none` with one process.
  std::string backend() const;
  /// Who started this process: `none`, `torchrun`, `Open MPI`, …
  std::string launcher() const;
  /// Whether `debug_launcher` forked this process.
  bool fork_launched() const;
  /// Whether `ACCELERATE_DEBUG_MODE` is on.
  bool debug() const;
  const Group& group() const;

  bool use_distributed() const { return num_processes() > 1; }
  bool is_main_process() const { return process_index() == 0; }
  bool is_local_main_process() const { return local_process_index() == 0; }
  bool is_last_process() const {
    return process_index() == num_processes() - 1;
  }

  /// Returns when every process has called it. Collective.
  void wait_for_everyone() const;

  /// Lets the main process run the rest of the scope before the others, for
  /// work whose result the others then find done, like a download.
  ///
  ///     {
  ///       auto order = state.main_process_first();
  ///       dataset = load_and_cache(path);
  ///     }
  ///
  /// Collective.
  [[nodiscard]] ProcessOrder main_process_first() const;
  /// The same, with the first process of each host going first.
  [[nodiscard]] ProcessOrder local_main_process_first() const;

  /// Wraps a function so that it runs on one process and does nothing on the
  /// others. The wrapped function returns an `optional` of the result.
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

  /// This process's share of `inputs`: contiguous blocks, the first processes
  /// get one element more when the length does not divide. Takes a vector, a
  /// tuple or array of one type (and returns a vector), a tensor (along
  /// dimension 0), a dataset with `size()` and `get(index)`, or a map of
  /// vectors or tensors with equal lengths; the input stays as it is.
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
      // LibTorch's may not know.
      const auto known = inputs.size();
      length = known.has_value() ? known.value() : refuse_unknown_length();
    } else {
      length = static_cast<std::size_t>(inputs.size());
    }
    return {inputs, split_indices(length, options)};
  }
  /// Throws `ArgumentError` with the lengths when they differ.
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

  /// Prints its arguments and a line end to stdout, on the first process of
  /// each host only.
  template <typename... Args>
  void print(const Args&... args) const {
    if (is_local_main_process()) {
      std::ostringstream line;
      (line << ... << args);
      print_line(line.str());
    }
  }

  /// Leaves the run; later collectives throw `StateError`.
  void destroy_process_group();

 private:
  class Impl;

  template <typename F>
  static auto only_if(bool here, F function) {
    return [here, function = std::move(function)](auto&&... args) mutable {
      using Result = std::invoke_result_t<F&, decltype(args)...>;
      if constexpr (std::is_void_v<Result>) {
        if (here) {
          function(std::forward<decltype(args)>(args)...);
        }
      } else {
        return here ? std::optional<Result>(
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

/// The contiguous block of `length` elements that belongs to one process.
struct SplitRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
ACCELERATE_API SplitRange split_range(
    std::int64_t length,
    std::int64_t process_index,
    std::int64_t num_processes);

}  // namespace accelerate
