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
#include "comm/peer_watch.h"
#include "comm/rendezvous.h"

namespace accelerate {

class Group::Impl {
 public:
  Impl() = default;  // A group of one.
  Impl(Seat seat, GroupOptions options);
  ~Impl();

  /// Runs `body(call)` as the group's next call of that name: refuses after a
  /// failure, remembers the first one.
  template <typename Body>
  auto guarded(const char* operation, const Body& body) {
    // Counted after what was announced is settled: a rank that finds a
    // mismatch there must not be a number ahead of the others.
    return protect([&] {
      const Call call{operation, ++sequence_};
      const CallScope scope(call);
      return body(call);
    });
  }
  /// The same for a part of a call that is counted already.
  template <typename Body>
  auto guarded(const Call& call, const Body& body) {
    return protect([&] {
      const CallScope scope(call);
      return body(call);
    });
  }

  /// Says what this rank is about to do and returns what all ranks said, after
  /// checking that it fits together.
  std::vector<CallRecord> agree(
      const Call& call,
      const Tensors& tensors,
      const std::string& arguments = {},
      std::optional<std::int64_t> free_dim = std::nullopt);

  /// The first half of `agree`; any later call of the group begins with the
  /// second.
  void announce(const Call& call, const std::string& arguments);
  bool all_announced() const;

  /// A part of the call that was made or announced last.
  Call last_call(const char* operation) const { return {operation, sequence_}; }
  /// Returns when `work` has ended; throws what it threw, with ranks named.
  void wait(const c10::intrusive_ptr<c10d::Work>& work, const Call& call);
  /// The same for the device's backend: only the current stream waits. What
  /// goes wrong there is said as on the host.
  void wait_on_device(
      const c10::intrusive_ptr<c10d::Work>& work, const Call& call) const;

  /// Whether no backend of the group reaches these tensors where they lie.
  bool must_stage(const Tensors& tensors) const;
  /// Starts an operation on the backend that carries `tensor`, and waits.
  void run(
      const at::Tensor& tensor,
      const Call& call,
      const std::function<c10::intrusive_ptr<c10d::Work>(c10d::Backend&)>&
          start);

  /// The processes behind some ranks of this group, and how many there are in
  /// the run.
  std::vector<int> process_indices(const std::vector<int>& ranks) const;
  int num_processes() const;

  /// Concatenates `rows` of all ranks; rank r has `counts[r]` of them.
  at::Tensor gather_rows(
      const at::Tensor& rows,
      const std::vector<std::int64_t>& counts,
      const Call& call);

  Seat seat;
  GroupOptions options;
  Patience patience;
  std::shared_ptr<std::atomic<bool>> aborted =
      std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<SharedMemory> memory;
  c10::intrusive_ptr<c10d::Backend> backend;
  c10::intrusive_ptr<c10d::Backend> device_backend;  // Null without devices.
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
  std::optional<Call> announced_;  // And not yet settled.
  std::string failure_;
  std::unique_ptr<PeerWatch> watch_;
};

template <typename Body>
auto Group::Impl::protect(const Body& body) {
  refuse_if_failed();
  try {
    settle();
    return body();
  } catch (const MismatchError&) {
    throw;
  } catch (const DistributedError& error) {
    failure_ = error.what();
    throw;
  }
}

}  // namespace accelerate
