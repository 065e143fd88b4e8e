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

// Small headers without tensors; the second one is for c10d's handles.
#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include "accelerate/export.h"
#include "accelerate/fwd.h"
#include "accelerate/json.h"

namespace accelerate {

/// The library that transfers tensors between the ranks of a process group.
enum class Backend {
  shm,   ///< shared memory; the default on one machine
  gloo,  ///< LibTorch's TCP collectives; the default across machines
  nccl,  ///< for GPU tensors; CPU tensors use `shm` or `gloo`
  mpi,   ///< Open MPI; used under `mpirun` or on request
  fake,  ///< between threads of one process, for tests
};

/// Parses `shm`, `gloo`, `nccl`, `mpi` or `fake`.
///
/// Throws `ArgumentError` with the list of choices for any other name.
ACCELERATE_API Backend parse_backend(std::string_view name);
ACCELERATE_API std::string_view name_of(Backend backend);

/// How tensors from all ranks are combined.
enum class Reduction { sum, mean, max, min };

/// Parses `sum`, `mean`, `max` or `min`.
///
/// Throws `ArgumentError` with the list of choices for any other name.
ACCELERATE_API Reduction parse_reduction(std::string_view name);
ACCELERATE_API std::string_view name_of(Reduction reduction);

/// Options for a process group.
struct GroupOptions {
  /// Default: `shm` if all ranks are on one machine, else `gloo`.
  std::optional<Backend> backend = std::nullopt;
  /// If a rank is later than this, the other ranks throw `DistributedError`.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// If a rank is later than this, a warning names the rank. Default: 30 s, or
  /// `timeout` if `timeout` is shorter.
  std::optional<std::chrono::milliseconds> warn_after = std::nullopt;
  /// Called with each warning about late ranks. Empty: warnings are written to
  /// stderr.
  std::function<void(const std::string&)> warn = {};
  /// Network interface for Gloo between machines. Default: LibTorch's choice.
  std::optional<std::string> network_interface = std::nullopt;
  /// True: the caller guarantees that all ranks are on this machine, so Gloo
  /// listens only on loopback even if the ranks cannot share memory.
  bool one_machine = false;
  /// The GPU whose tensors the backend `nccl` transfers.
  std::optional<c10::Device> device = std::nullopt;
  /// False: ranks do not try to share memory, as if each were on a different
  /// machine.
  bool shared_memory = true;
};

/// Throws `ArgumentError` unless `timeout` and `warn_after` are positive,
/// `warn_after` is at most `timeout`, and the network interface exists.
ACCELERATE_API void check_group_options(const GroupOptions& options);

/// Options for `Group::pad_across_processes`.
struct PadOptions {
  std::int64_t dim = 0;
  double pad_index = 0;
  bool pad_first = false;
};

/// A process group: the ranks 0 … size-1 that call the same collectives.
///
/// A handle: copies refer to the same process group. In a group of one rank
/// every collective returns immediately. Every rank must call the functions
/// marked *Collective* in the same order. Before any data moves, the ranks
/// compare the operation, sequence number, types and shapes of their calls. If
/// the calls differ, every rank throws `MismatchError` with a table of the
/// calls, and the group stays usable. If a rank dies or times out, the other
/// ranks throw `DistributedError`, and the group refuses further calls. Tensors
/// may be on any device: if no backend of the group supports the device, the
/// tensors are copied to host memory and back.
///
/// Thread safety: use a group from only one thread at a time.
class ACCELERATE_API Group {
 public:
  using Tensors = std::vector<Tensor>;

  /// A group of one rank.
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
  /// Name of the backend; `none` in a group of one rank.
  std::string backend_name() const;
  /// Whether all ranks are on this machine and share memory.
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

  /// Concatenates each tensor across ranks along dimension 0. Ranks may have
  /// different sizes in dimension 0; a 0-d tensor counts as one row.
  /// Collective.
  [[nodiscard]] Tensors gather(const Tensors& tensors) const;

  /// Reduces each tensor across ranks and multiplies the result by `scale`.
  /// Collective.
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

  /// Concatenates the lists from all ranks. Collective.
  [[nodiscard]] std::vector<Json> gather_object(
      const std::vector<Json>& objects) const;

  /// Overwrites the list with the list from rank `from`. Collective.
  void broadcast_object_list(std::vector<Json>& objects, int from = 0) const;

  /// Returns a tensor of `count` elements with the type of `like`. The tensor
  /// is in shared memory, so that `backend().allreduce` does not copy it. If
  /// the backend has no shared memory, returns an ordinary tensor. Collective.
  [[nodiscard]] Tensor allocate(std::int64_t count, const Tensor& like) const;

  /// Announces that this rank begins `operation`, without waiting for the other
  /// ranks. For code that starts operations directly on `backend()`.
  void announce(const char* operation, const std::string& arguments = {}) const;
  /// Whether every rank has reached the operation that this rank announced
  /// last. Returns true after `settle`. Never waits. Always false before
  /// `settle` if the ranks are on several machines.
  bool all_announced() const;
  /// Waits for the announcements from the other ranks and compares them.
  /// Collective.
  ///
  /// Throws `MismatchError` if the announcements differ. Every later call on
  /// the group calls `settle` first.
  void settle() const;
  /// Returns the sequence number of the last call on the group. Error messages
  /// show this number.
  std::uint64_t last_call() const;
  /// Waits for an operation that was started on `backend()`, with the timeout
  /// and errors of a collective. The error messages name `operation`.
  void wait(
      const c10::intrusive_ptr<c10d::Work>& work, const char* operation) const;
  /// Like `wait`, for an operation on `device_backend()`: only the current
  /// stream waits; the program continues.
  void wait_on_device(
      const c10::intrusive_ptr<c10d::Work>& work, const char* operation) const;

  /// Returns the backend, for code that starts an operation and waits for it
  /// later. The caller must `announce` each operation, so that the ranks can
  /// compare their operations.
  ///
  /// Throws `StateError` in a group of one rank, which has no backend.
  c10d::Backend& backend() const;
  /// Returns the backend for tensors on a device, or null if the group has no
  /// such backend.
  c10d::Backend* device_backend() const;
  /// Returns the group as a LibTorch process group.
  c10::intrusive_ptr<c10d::ProcessGroup> process_group() const;

  /// Makes every current and later call on this rank that waits for other ranks
  /// throw `DistributedError`.
  void abort() const;

 private:
  class Impl;
  explicit Group(std::shared_ptr<Impl> impl);

  std::shared_ptr<Impl> impl_;
};

}  // namespace accelerate
