// SPDX-License-Identifier: Apache-2.0
// Processes that talk to each other.
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

// Small, without tensors; the second for the handles of c10d.
#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include "accelerate/export.h"
#include "accelerate/fwd.h"
#include "accelerate/json.h"

namespace accelerate {

/// What carries tensors between the ranks of a group.
enum class Backend {
  shm,   ///< shared memory of one host; the default there
  gloo,  ///< LibTorch's TCP collectives; the default across hosts
  nccl,  ///< between GPUs; what lies in host memory goes as without it
  mpi,   ///< Open MPI, under `mpirun` or when asked for
  fake,  ///< threads of one process, for tests
};

/// Parses `shm`, `gloo`, `nccl`, `mpi` or `fake`.
///
/// Throws `ArgumentError` that names the choices on anything else.
ACCELERATE_API Backend parse_backend(std::string_view name);
ACCELERATE_API std::string_view name_of(Backend backend);

/// How tensors of all ranks become one.
enum class Reduction { sum, mean, max, min };

/// Parses `sum`, `mean`, `max` or `min`; throws `ArgumentError` otherwise.
ACCELERATE_API Reduction parse_reduction(std::string_view name);
ACCELERATE_API std::string_view name_of(Reduction reduction);

/// How a group is set up.
struct GroupOptions {
  /// Left out: `shm` if all ranks prove to be on one host, else `gloo`.
  std::optional<Backend> backend = std::nullopt;
  /// A rank that is later than this makes the others throw.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// A rank that is later than this is named in a warning. Left out: 30 s, or
  /// the timeout where that is shorter.
  std::optional<std::chrono::milliseconds> warn_after = std::nullopt;
  /// Takes the warnings; left out: they go to stderr.
  std::function<void(const std::string&)> warn = {};
  /// Network interface for Gloo between hosts; left out: LibTorch's choice.
  std::optional<std::string> network_interface = std::nullopt;
  /// All ranks are known to be on this host: Gloo then listens on loopback
  /// alone, also where they share no memory.
  bool one_host = false;
  /// The device whose tensors `nccl` carries.
  std::optional<c10::Device> device = std::nullopt;
  /// Off: ranks do not look for common memory, as if each had its own host.
  bool shared_memory = true;
};

/// Throws `ArgumentError` unless the times of `options` are positive, the
/// warning comes before the timeout, and the network interface exists.
ACCELERATE_API void check_group_options(const GroupOptions& options);

/// Padding of `Group::pad_across_processes`.
struct PadOptions {
  std::int64_t dim = 0;
  double pad_index = 0;
  bool pad_first = false;
};

/// The ranks 0 … size-1 that take part in the same collectives.
///
/// A handle: copies mean the same group. In a group of one every collective
/// returns at once. The functions marked *Collective* must be called by every
/// rank in the same order. Before any data moves, the ranks compare operation,
/// sequence number, types and shapes: if they differ, every rank throws
/// `MismatchError` with a table, and the group stays usable. A rank that died
/// or does not come makes the others throw `DistributedError`, and then the
/// group refuses further calls. Tensors may lie on any device: those that no
/// backend of the group can reach are copied to the host and back.
///
/// Thread safety: one thread at a time.
class ACCELERATE_API Group {
 public:
  using Tensors = std::vector<Tensor>;

  /// A group of one.
  Group();
  /// Joins `size` ranks that share `store`.
  ///
  /// Collective. Throws `DistributedError` that names the ranks which did not
  /// come within the timeout, `UnsupportedError` when the ranks cannot use the
  /// backend that was asked for.
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
  /// Name of the backend; `none` in a group of one.
  std::string backend_name() const;
  /// Whether all ranks proved to share this host's memory.
  bool on_one_host() const;
  const GroupOptions& options() const;

  /// Makes a group of some ranks of this one, in the order given.
  ///
  /// Collective on this group: ranks outside `ranks` get nothing. Throws
  /// `ArgumentError` on a rank that is not in the group or named twice.
  std::optional<Group> subgroup(const std::vector<int>& ranks) const;

  /// Returns when every rank has called it. Collective.
  void barrier() const;

  /// Concatenates each tensor across ranks along dimension 0, where sizes may
  /// differ; a 0-d tensor counts as one row. Collective.
  [[nodiscard]] Tensors gather(const Tensors& tensors) const;

  /// Reduces each tensor across ranks and multiplies by `scale`. Collective.
  ///
  /// Throws `ArgumentError` for the mean of integers.
  [[nodiscard]] Tensors reduce(
      const Tensors& tensors,
      Reduction reduction = Reduction::sum,
      double scale = 1.0) const;

  /// Overwrites the tensors with those of rank `from`. Collective.
  void broadcast(const Tensors& tensors, int from = 0) const;

  /// Pads each tensor to the largest size that any rank has in `dim`; tensors
  /// without such a dimension stay as they are. Collective.
  [[nodiscard]] Tensors pad_across_processes(
      const Tensors& tensors, const PadOptions& options = {}) const;

  /// Concatenates the lists of all ranks. Collective.
  [[nodiscard]] std::vector<Json> gather_object(
      const std::vector<Json>& objects) const;

  /// Overwrites the list with that of rank `from`. Collective.
  void broadcast_object_list(std::vector<Json>& objects, int from = 0) const;

  /// Returns a tensor of `count` elements of the type of `like` in memory that
  /// the ranks share, where `backend().allreduce` works without a copy; an
  /// ordinary tensor where the backend has no such memory. Collective.
  [[nodiscard]] Tensor allocate(std::int64_t count, const Tensor& like) const;

  /// For code that starts operations of `backend()` itself. Says that this
  /// rank begins `operation`, without waiting for the others.
  void announce(const char* operation, const std::string& arguments = {}) const;
  /// Whether every rank has announced something or called a collective; never
  /// waits, and stays false between hosts.
  bool all_announced() const;
  /// Waits for the others' announcements and compares them. Collective.
  ///
  /// Throws `MismatchError` when they differ. Each later call of the group
  /// begins with this one.
  void settle() const;
  /// The number of the group's last call, as messages show it.
  std::uint64_t last_call() const;
  /// Waits for an operation that was started in the backend, with the limits
  /// and the errors of a collective. `operation` names it in them.
  void wait(
      const c10::intrusive_ptr<c10d::Work>& work, const char* operation) const;
  /// The same for an operation of `device_backend()`: lets the current stream
  /// wait, not the program.
  void wait_on_device(
      const c10::intrusive_ptr<c10d::Work>& work, const char* operation) const;

  /// The backend itself, for code that starts operations and waits later; the
  /// agreement above is then the caller's business: `announce`.
  ///
  /// Throws `StateError` in a group of one, which has none.
  c10d::Backend& backend() const;
  /// The backend for tensors on a device, if the group has one.
  c10d::Backend* device_backend() const;
  /// The group as LibTorch's own classes want it.
  c10::intrusive_ptr<c10d::ProcessGroup> process_group() const;

  /// Makes every wait of this rank end with `DistributedError`, now and later.
  void abort() const;

 private:
  class Impl;
  explicit Group(std::shared_ptr<Impl> impl);

  std::shared_ptr<Impl> impl_;
};

}  // namespace accelerate
