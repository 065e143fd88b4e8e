// SPDX-License-Identifier: Apache-2.0
// The implementation of `Group`.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "accelerate/error.h"
#include "accelerate/group.h"
#include "comm/backend_exchange.h"
#include "comm/call_record.h"
#include "comm/exchange.h"
#include "comm/rank_monitor.h"
#include "comm/rendezvous.h"

namespace accelerate {

/// A backend operation that may still be running.
struct Operation {
  Call call;
  c10::intrusive_ptr<c10d::Work> work;  ///< null if there is no work to do
  bool on_device = false;
  /// Runs after `work`. Keeps the tensors of the operation alive.
  std::function<void()> finish = {};

  /// Adds `step` to the end of `finish`.
  void then(std::function<void()> step);
};

class Group::Impl : public std::enable_shared_from_this<Group::Impl> {
 public:
  Impl() = default;  // A group of one rank.
  Impl(RankContext context, GroupOptions options);
  ~Impl();

  /// Runs `body(call)` as the group's next call. Throws if the group has
  /// already failed; stores the first `DistributedError`.
  template <typename Body>
  auto guarded(const char* operation, const Body& body) {
    // `protect` first checks the announced call, and only then is `sequence_`
    // incremented. If this check finds a mismatch, this rank must not get ahead
    // of the other ranks.
    return protect([&] {
      const Call call{operation, ++sequence_};
      const CallScope scope(call);
      return body(call);
    });
  }
  /// Runs `body(call)` as part of a call that already has a sequence number.
  template <typename Body>
  auto guarded(const Call& call, const Body& body) {
    return protect([&] {
      const CallScope scope(call);
      return body(call);
    });
  }

  /// Exchanges call records with all ranks, checks that the records match, and
  /// returns the records.
  std::vector<CallRecord> agree(
      const Call& call,
      const Tensors& tensors,
      const std::string& arguments = {},
      std::optional<std::int64_t> free_dim = std::nullopt) {
    return agree(record_of(call, tensors, arguments), call, free_dim);
  }
  /// Like `agree` above; the record also carries this rank's `payload`.
  std::vector<CallRecord> agree_on_objects(
      const Call& call, const std::string& arguments, std::string payload);

  /// Begins a call without waiting for the other ranks: sends this rank's call
  /// record. The next call on the group first waits for the records of all
  /// ranks and checks that they match.
  Call announce(const std::string& operation);
  bool all_announced() const;

  /// Returns whether operations on the tensor run on Gloo.
  bool uses_gloo(const at::Tensor& tensor) const;
  /// Returns whether the tensor must be copied to host memory, because no
  /// backend of the group supports its device.
  bool must_stage(const at::Tensor& tensor) const;

  using StartOnBackend =
      std::function<c10::intrusive_ptr<c10d::Work>(c10d::Backend&)>;
  /// Calls `start` with the backend for the device of `tensor`. Does not throw;
  /// `finish` throws the error.
  Operation start(
      const at::Tensor& tensor, const Call& call, const StartOnBackend& start);
  // The operations below do not check that the ranks agree. If `overlap` is
  // false, they may run on this thread and on the device's current stream.
  Operation start_all_reduce(
      const at::Tensor& tensor,
      Reduction reduction,
      const Call& call,
      bool overlap = true);
  Operation start_reduce_scatter(
      const at::Tensor& output,
      const at::Tensor& input,
      Reduction reduction,
      const Call& call,
      bool overlap = true);
  Operation start_all_gather(
      const at::Tensor& output,
      const at::Tensor& input,
      const Call& call,
      bool overlap = true);
  Operation start_broadcast(
      const at::Tensor& tensor,
      int from,
      const Call& call,
      bool overlap = true);
  /// Copies the r-th part of `input` on rank `from` to `output` on rank r. The
  /// tensors must be in host memory.
  Operation start_scatter(
      const at::Tensor& output,
      const at::Tensor& input,
      int from,
      const Call& call,
      bool overlap = true);
  /// Returns when `operation` has finished. If the operation is on a device,
  /// only the device's current stream waits. Errors name the ranks that failed.
  void finish(Operation& operation);
  void finish(Operation&& operation) { finish(operation); }
  Pending pending(Operation operation);

  /// Returns the process index of each of `ranks`, which are ranks in this
  /// group.
  std::vector<int> process_indices(const std::vector<int>& ranks) const;
  /// Returns the number of processes in the run.
  int num_processes() const;

  /// Concatenates `rows` from all ranks; rank r has `counts[r]` rows.
  at::Tensor gather_rows(
      const at::Tensor& rows,
      const std::vector<std::int64_t>& counts,
      const Call& call);

  RankContext context;
  GroupOptions options;
  WaitLimits limits;
  std::shared_ptr<std::atomic<bool>> aborted =
      std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<SharedMemory> memory;
  c10::intrusive_ptr<c10d::Backend> backend;
  c10::intrusive_ptr<c10d::Backend> device_backend;  // May be null.
  std::unique_ptr<Exchange> exchange;
  std::optional<BackendWait> backend_wait;
  int subgroups = 0;

 private:
  template <typename Body>
  auto protect(const Body& body);
  void refuse_if_failed() const;
  void settle();
  static CallRecord record_of(
      const Call& call, const Tensors& tensors, const std::string& arguments);
  std::vector<CallRecord> agree(
      const CallRecord& record,
      const Call& call,
      std::optional<std::int64_t> free_dim);
  void wait_on_device(const Operation& operation) const;
  std::vector<CallRecord> read_records(
      const std::vector<std::string>& texts) const;
  void make_backend(const CommonMemory& common);
  void make_device_backend();

  std::uint64_t sequence_ = 0;
  std::optional<Call> announced_;  // Its records are not checked yet.
  std::string failure_;
  std::unique_ptr<RankMonitor> rank_monitor_;
};

/// Names the ranks in a group of this size, for example "ranks 0 to 3".
std::string name_all_ranks(int size);
/// Throws `ArgumentError` unless `from` is a rank of a group of this size.
void check_from(const char* operation, int from, int size);
/// Throws `ArgumentError` if `reduction` does not support the type of `tensor`.
void check_reduction(Reduction reduction, const at::Tensor& tensor);
/// Returns a flat byte view of `contiguous`, for collectives that move data
/// without interpreting it.
at::Tensor as_bytes(const at::Tensor& contiguous);

template <typename Body>
auto Group::Impl::protect(const Body& body) {
  refuse_if_failed();
  try {
    settle();
    return body();
  } catch (const DistributedError& error) {
    failure_ = error.what();
    throw;
  }
}

}  // namespace accelerate
