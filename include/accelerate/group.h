// SPDX-License-Identifier: Apache-2.0
// Process groups and their collectives.
//
//     accelerate::PartialState state;
//     const accelerate::Group& world = state.group();
//     at::Tensor loss = accelerate::reduce(my_loss, {}, world);
//     auto pair = world.subgroup({0, 1});
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Small headers that do not include `at::Tensor`. intrusive_ptr.h declares the
// smart pointer to a store.
#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include "accelerate/export.h"
#include "accelerate/fwd.h"
#include "accelerate/json.h"

namespace accelerate {

/// The implementation of the collectives of a process group.
enum class Backend {
  shm,   ///< shared memory; the default on one machine
  gloo,  ///< LibTorch's TCP collectives; the default across machines
  nccl,  ///< for GPU tensors; CPU tensors use `shm` or `gloo`
  mpi,   ///< Open MPI; used under `mpirun` or on request
  fake,  ///< between threads of one process, for tests
};

/// Parses `shm`, `gloo`, `nccl`, `mpi` or `fake`.
///
/// For any other name, throws an `ArgumentError` that lists the choices.
ACCELERATE_API Backend parse_backend(std::string_view name);
/// Returns the name that `parse_backend` accepts.
ACCELERATE_API std::string_view name_of(Backend backend);

/// How tensors from all ranks are combined.
enum class Reduction { sum, mean, max, min };

/// Parses `sum`, `mean`, `max` or `min`.
///
/// For any other name, throws an `ArgumentError` that lists the choices.
ACCELERATE_API Reduction parse_reduction(std::string_view name);
/// Returns the name that `parse_reduction` accepts.
ACCELERATE_API std::string_view name_of(Reduction reduction);

/// Options for a process group.
struct GroupOptions {
  /// The backend to use. Default: `shm` if all ranks are on one machine, else
  /// `gloo`.
  std::optional<Backend> backend = std::nullopt;
  /// How long a rank waits for late ranks before it throws `DistributedError`.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// How long a rank waits before it prints a warning that names the late
  /// ranks. Default: 30 s, or `timeout` if `timeout` is shorter.
  std::optional<std::chrono::milliseconds> warn_after = std::nullopt;
  /// Called with each warning about late ranks. Default: warnings are written
  /// to stderr.
  std::function<void(const std::string&)> warn = {};
  /// Network interface for Gloo between machines. Default: LibTorch's choice.
  std::optional<std::string> network_interface = std::nullopt;
  /// If true, the caller guarantees that all ranks are on this machine, so Gloo
  /// listens only on loopback even if the ranks cannot share memory.
  bool one_machine = false;
  /// The GPU whose tensors the backend `nccl` transfers.
  std::optional<c10::Device> device = std::nullopt;
  /// If false, ranks do not try to share memory, as if each were on a different
  /// machine.
  bool shared_memory = true;
};

/// Throws `ArgumentError` unless `timeout` and `warn_after` are positive,
/// `warn_after` is at most `timeout`, and the network interface exists.
ACCELERATE_API void check_group_options(const GroupOptions& options);

/// Options for `Group::pad_across_processes`.
struct PadOptions {
  std::int64_t dim = 0;
  double pad_index = 0;    ///< the value of the padding
  bool pad_first = false;  ///< whether the padding precedes the data
};

/// A running operation, returned by the `start_*` functions of `Group`.
///
/// A `Pending` that is destroyed before `wait` leaves the operation running;
/// its result and its errors are lost.
class ACCELERATE_API Pending {
 public:
  /// Constructs a finished operation.
  Pending();
  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;
  ~Pending();

  /// Waits for the operation. For tensors in host memory, returns when the
  /// operation has finished. For tensors on a device, makes the device's
  /// current stream wait and returns immediately. Further calls do nothing.
  ///
  /// Throws the errors of a collective: a `DistributedError` names the ranks
  /// that exited or did not reach the call, and makes the group unusable.
  void wait();

 private:
  friend class Group;
  friend class GroupCall;
  struct State;
  explicit Pending(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

/// A process group: the ranks 0 … size-1 that call the same collectives.
///
/// Copies of a `Group` refer to the same process group. In a group of one rank,
/// every collective returns immediately. Every rank must call the functions
/// marked *Collective* in the same order. Before any data moves, the ranks
/// compare the operation, sequence number, types and shapes of their calls. If
/// the calls differ, every rank throws `MismatchError` with a table of the
/// calls, and the group stays usable. If a rank dies or times out, the other
/// ranks throw `DistributedError`, and the group rejects further calls. Tensors
/// may be on any device: if no backend of the group supports the device, the
/// tensors are copied to host memory and back.
///
/// Thread safety: use a group from only one thread at a time.
class ACCELERATE_API Group {
 public:
  using Tensors = std::vector<Tensor>;

  /// Constructs a group of one rank.
  Group();
  /// Joins the process group of `size` ranks that share `store`.
  ///
  /// Collective. If ranks are still missing after the timeout, throws a
  /// `DistributedError` that names them. Throws `UnsupportedError` if the ranks
  /// cannot use the requested backend.
  Group(
      const c10::intrusive_ptr<c10d::Store>& store,
      int rank,
      int size,
      GroupOptions options = {});
  Group(const Group&);
  Group(Group&&) noexcept;
  Group& operator=(const Group&);
  Group& operator=(Group&&) noexcept;
  ~Group();

  int rank() const;
  int size() const;
  /// Returns the name of the backend; `none` in a group of one rank.
  std::string backend_name() const;
  /// Returns whether all ranks are on this machine and share memory.
  bool on_one_machine() const;
  const GroupOptions& options() const;

  /// Creates a group that consists of the given ranks of this group, in the
  /// given order.
  ///
  /// Collective: every rank of this group must call it. Ranks that are not in
  /// `ranks` get `nullopt`. Throws `ArgumentError` if a rank is not in this
  /// group or is listed twice.
  std::optional<Group> subgroup(const std::vector<int>& ranks) const;

  /// Returns when every rank has called `barrier`. Collective.
  void barrier() const;

  /// Concatenates each tensor across ranks along dimension 0 and returns the
  /// result on every rank. Ranks may have different sizes in dimension 0; a 0-d
  /// tensor counts as one row. Collective.
  [[nodiscard]] Tensors gather(const Tensors& tensors) const;

  /// Reduces each tensor across ranks, multiplies the result by `scale` and
  /// returns it on every rank. Collective.
  ///
  /// Throws `ArgumentError` for `Reduction::mean` of integer tensors.
  [[nodiscard]] Tensors reduce(
      const Tensors& tensors,
      Reduction reduction = Reduction::sum,
      double scale = 1.0) const;

  /// Overwrites the tensors with the tensors from rank `from`. Collective.
  void broadcast(const Tensors& tensors, int from = 0) const;

  /// Pads each tensor in dimension `options.dim` to the largest size that this
  /// tensor has on any rank. Tensors without this dimension are returned
  /// unchanged. Collective.
  [[nodiscard]] Tensors pad_across_processes(
      const Tensors& tensors, const PadOptions& options = {}) const;

  /// Concatenates the lists from all ranks and returns the result on every
  /// rank. Collective.
  [[nodiscard]] std::vector<Json> gather_object(
      const std::vector<Json>& objects) const;

  /// Overwrites the list with the list from rank `from`. Collective.
  void broadcast_object_list(std::vector<Json>& objects, int from = 0) const;

  /// Returns whether collectives work in place on tensors on `device`. If not,
  /// these tensors are copied to host memory and back.
  bool supports(c10::Device device) const;

  // The `start_*` functions begin an operation and return without waiting for
  // its result:
  //
  //     Pending pending = group.start_all_reduce(bucket);
  //     …
  //     pending.wait();
  //
  // They first wait until every rank has reached the call, to compare the calls
  // as every collective does. The tensors must be contiguous, and must not be
  // used before `Pending::wait` has returned.

  /// Replaces `tensor` on every rank with the reduction over all ranks.
  /// Collective.
  [[nodiscard]] Pending start_all_reduce(
      const Tensor& tensor, Reduction reduction = Reduction::sum) const;
  /// Reduces `input`, which has `size()` times as many elements as `output`,
  /// and writes the r-th part of the result to `output` on rank r. Collective.
  [[nodiscard]] Pending start_reduce_scatter(
      const Tensor& output,
      const Tensor& input,
      Reduction reduction = Reduction::sum) const;
  /// Concatenates the `input` tensors from all ranks into `output`, which has
  /// `size()` times as many elements. `input` may be this rank's part of
  /// `output`. Collective.
  [[nodiscard]] Pending start_all_gather(
      const Tensor& output, const Tensor& input) const;
  /// Overwrites `tensor` with the tensor from rank `from`. Collective.
  [[nodiscard]] Pending start_broadcast(
      const Tensor& tensor, int from = 0) const;

  /// Returns a tensor of `count` elements with the type of `like`. The tensor
  /// is in shared memory, so that `start_all_reduce` does not copy it. If the
  /// backend has no shared memory, returns an ordinary tensor. Collective.
  [[nodiscard]] Tensor allocate(std::int64_t count, const Tensor& like) const;

  /// Makes this rank stop waiting for other ranks: every call that waits for
  /// them, current or later, throws `DistributedError`.
  void abort() const;

 private:
  friend class GroupCall;
  friend class GroupBackends;
  friend class Pending;
  class Impl;
  explicit Group(std::shared_ptr<Impl> impl);

  std::shared_ptr<Impl> impl_;
};

}  // namespace accelerate
