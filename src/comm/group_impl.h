// SPDX-License-Identifier: Apache-2.0
// The state behind a `Group`.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "accelerate/error.h"
#include "accelerate/group.h"
#include "comm/backend_exchange.h"
#include "comm/call_record.h"
#include "comm/exchange.h"
#include "comm/rank_monitor.h"
#include "comm/rendezvous.h"

namespace accelerate {

class Group::Impl {
 public:
  Impl() = default;  // A group of one rank.
  Impl(RankContext context, GroupOptions options);
  ~Impl();

  /// Runs `body(call)` as the group's next call. Throws if the group has
  /// already failed; remembers the first `DistributedError`.
  template <typename Body>
  auto guarded(const char* operation, const Body& body) {
    // `sequence_` is incremented only after the announced call is settled: a
    // rank that finds a mismatch while settling must not get ahead of the other
    // ranks.
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
      std::optional<std::int64_t> free_dim = std::nullopt);

  /// Sends this rank's call record without waiting for the other ranks. The
  /// next call on the group first waits for the records of all ranks and checks
  /// that they match.
  void announce(const Call& call, const std::string& arguments);
  bool all_announced() const;

  /// Returns a `Call` with the name `operation` and the sequence number of the
  /// call that was made or announced last.
  Call last_call(const char* operation) const { return {operation, sequence_}; }
  /// Returns when `work` has finished. Errors name the ranks that failed.
  void wait(const c10::intrusive_ptr<c10d::Work>& work, const Call& call);
  /// Like `wait`, for `work` on the device's backend: the device's current
  /// stream waits, but this thread does not. Throws the same errors as `wait`.
  void wait_on_device(
      const c10::intrusive_ptr<c10d::Work>& work, const Call& call) const;

  /// Whether the tensors must be copied to host memory, because no backend of
  /// the group supports their device.
  bool must_stage(const Tensors& tensors) const;
  /// Calls `start` with the backend for the device of `tensor`, and waits for
  /// the operation that `start` returns.
  void run(
      const at::Tensor& tensor,
      const Call& call,
      const std::function<c10::intrusive_ptr<c10d::Work>(c10d::Backend&)>&
          start);

  /// Returns the process index of each of `ranks`, which are ranks in this
  /// group.
  std::vector<int> process_indices(const std::vector<int>& ranks) const;
  /// The number of processes in the run.
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
  c10::intrusive_ptr<c10d::ProcessGroup> process_group;
  int subgroups = 0;

 private:
  template <typename Body>
  auto protect(const Body& body);
  void refuse_if_failed() const;
  void settle();
  std::vector<CallRecord> read_records(
      const std::vector<std::string>& texts) const;
  void make_backend(const CommonMemory& common);
  void make_device_backend();

  std::uint64_t sequence_ = 0;
  std::optional<Call> announced_;  // Not yet settled.
  std::string failure_;
  std::unique_ptr<RankMonitor> rank_monitor_;
};

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
