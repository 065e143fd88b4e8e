// SPDX-License-Identifier: Apache-2.0
// MPI as a LibTorch backend.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "comm/backends/mpi/engine.h"
#include "comm/backends/mpi/group.h"
#include "comm/backends/mpi/tensors.h"

namespace accelerate::mpi {

/// Collectives on dense CPU tensors over MPI.
///
/// Collectives run one after the other in the order of the calls, on a separate
/// thread. If `asyncOp` is false and no other collective is pending, the
/// collective runs on the caller's thread instead. `send` and `recv` start
/// immediately: they do not wait for collectives, and collectives do not wait
/// for messages.
///
/// Reductions combine values in rank order, so results are reproducible bit for
/// bit and the same on all ranks. 16-bit floats are reduced in fp32 and rounded
/// once.
///
/// A call with invalid arguments throws `ArgumentError` or `UnsupportedError`.
/// After an MPI failure or a timeout, `wait` on the returned work throws
/// `DistributedError`. The process group is then unusable, and every later
/// operation fails with the reason of the first failure.
///
/// Thread-safe. All ranks must make the same collective calls in the same
/// order. The destructor finishes pending operations. During stack unwinding,
/// it makes them fail instead.
class MpiBackend : public c10d::Backend {
 public:
  using Tensors1 = std::vector<at::Tensor>;
  using Tensors2 = std::vector<std::vector<at::Tensor>>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  explicit MpiBackend(const std::shared_ptr<Group>& group);
  ~MpiBackend() override;

  const std::string getBackendName() const override { return "mpi"; }
  c10::intrusive_ptr<Options> getBackendOptions() override;
  void setTimeout(std::chrono::milliseconds timeout) override;
  void setSequenceNumberForGroup() override {}  // Starts at 0 on all ranks.
  std::uint64_t getSequenceNumberForGroup() override;
  c10d::ErrorType getError() override;
  /// Fails all pending operations immediately; makes the group unusable.
  void abort() override;

  WorkPtr broadcast(
      Tensors1& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(
      Tensors1& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(
      Tensors1& tensors,
      const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(
      Tensors1& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(
      Tensors2& outputs,
      Tensors1& inputs,
      const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(
      at::Tensor& output,
      at::Tensor& input,
      const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(
      Tensors1& outputs,
      Tensors1& inputs,
      const c10d::AllgatherOptions& options) override;
  WorkPtr gather(
      Tensors2& outputs,
      Tensors1& inputs,
      const c10d::GatherOptions& options) override;
  WorkPtr scatter(
      Tensors1& outputs,
      Tensors2& inputs,
      const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(
      Tensors1& outputs,
      Tensors2& inputs,
      const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(
      at::Tensor& output,
      at::Tensor& input,
      const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(
      Tensors1& outputs,
      Tensors1& inputs,
      const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall(
      Tensors1& outputs,
      Tensors1& inputs,
      const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall_base(
      at::Tensor& output,
      at::Tensor& input,
      std::vector<std::int64_t>& output_splits,
      std::vector<std::int64_t>& input_splits,
      const c10d::AllToAllOptions& options) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;

  WorkPtr send(Tensors1& tensors, int to, int tag) override;
  WorkPtr recv(Tensors1& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors1& tensors, int tag) override;

 private:
  /// The arguments that every collective has.
  struct Call {
    c10d::OpType type;
    const char* name;
    std::chrono::milliseconds timeout;
    bool async;
    Tensors1 results;
  };
  using Body = std::function<void(Collectives&, Tensors&)>;

  WorkPtr submit(Call call, Body body);
  WorkPtr reduce_all(Call call, const c10d::ReduceOp& op);
  WorkPtr gather_tensors(Call call, Tensors1 inputs);
  WorkPtr scatter_reduced(Call call, Tensors1 inputs, const c10d::ReduceOp& op);
  WorkPtr receive(
      c10d::OpType type,
      const char* name,
      Tensors1& tensors,
      int from,
      int tag);
  Message new_message(
      c10d::OpType type, const char* name, const at::Tensor& tensor);
  void check_tag(const char* name, int tag) const;
  std::chrono::milliseconds timeout_or(
      std::chrono::milliseconds requested) const;

  const std::shared_ptr<Group> group_;
  const std::shared_ptr<Engine> engine_;
  std::atomic<std::chrono::milliseconds> timeout_;
  std::atomic<std::uint64_t> messages_ = 0;
};

}  // namespace accelerate::mpi
