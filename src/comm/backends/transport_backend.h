// SPDX-License-Identifier: Apache-2.0
// LibTorch's collectives over a `Transport`.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "accelerate/export.h"
#include "comm/backends/transport_work.h"
#include "comm/reduce_kernels.h"
#include "comm/transport.h"

namespace accelerate {

class TensorMemory;

/// A `c10d::Backend` for CPU tensors over a `Transport`.
///
/// Collectives run one after the other in the order of the calls, on a separate
/// thread. If `asyncOp` is false and no other collective is pending, the
/// collective runs on the caller's thread instead. Reductions combine values in
/// rank order, so results are reproducible bit for bit.
///
/// After a `MismatchError` or an `OutOfMemoryError` in a collective, the
/// backend stays usable. After any other error in a collective, such as a
/// `DistributedError` (a rank has exited or timed out), the backend rejects
/// every further call with the same reason.
///
/// Thread safety: all members may be called from any thread. The caller must
/// ensure that all ranks make the same collective calls in the same order.
class ACCELERATE_API TransportBackend : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<Tensors>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  /// How an operation runs.
  struct SubmitOptions {
    bool async = false;
    /// Overrides the transport's timeout.
    std::optional<std::chrono::milliseconds> timeout = std::nullopt;
  };

  /// `aborted` must be the flag in the transport's `WaitLimits`.
  TransportBackend(
      std::unique_ptr<Transport> transport,
      std::string name,
      std::shared_ptr<std::atomic<bool>> aborted);
  ~TransportBackend() override;

  const std::string getBackendName() const override { return name_; }
  void abort() override;
  void shutdown() override { abort(); }
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return sequence_; }

  WorkPtr broadcast(Tensors&, const c10d::BroadcastOptions&) override;
  WorkPtr allreduce(Tensors&, const c10d::AllreduceOptions&) override;
  WorkPtr _allgather_base(
      at::Tensor&, at::Tensor&, const c10d::AllgatherOptions&) override;
  WorkPtr scatter(Tensors&, TensorLists&, const c10d::ScatterOptions&) override;
  WorkPtr _reduce_scatter_base(
      at::Tensor&, at::Tensor&, const c10d::ReduceScatterOptions&) override;
  WorkPtr barrier(const c10d::BarrierOptions&) override;

  /// Returns whether `allocateTensor` returns tensors in shared memory.
  bool supportsTensorAlloc(c10::DeviceIndex) override;
  /// Returns a tensor of `size` elements in shared memory. `allreduce` works on
  /// this tensor without a copy.
  ///
  /// Collective.
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;

 private:
  using Operation = std::function<void(const Call&, TensorMemory&)>;
  struct Pending;

  WorkPtr submit(
      c10d::OpType type,
      SubmitOptions options,
      Tensors results,
      Operation operation);
  void run_queue();
  void run(Pending& pending);
  void refuse_if_failed();
  void note_failure(const std::exception_ptr& error);

  std::unique_ptr<Transport> transport_;
  const std::string name_;
  std::shared_ptr<std::atomic<bool>> aborted_;
  std::atomic<std::uint64_t> sequence_ = 0;

  std::mutex mutex_;  // Guards the members below.
  std::condition_variable changed_;
  std::deque<Pending> queue_;
  bool busy_ = false;
  bool stopping_ = false;
  std::string failure_;
  std::thread thread_;
};

}  // namespace accelerate
