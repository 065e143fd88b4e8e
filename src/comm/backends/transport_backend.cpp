// SPDX-License-Identifier: Apache-2.0
#include "comm/backends/transport_backend.h"

#include <utility>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "comm/backends/tensor_memory.h"
#include "comm/transport_collectives.h"

namespace accelerate {

using c10d::OpType;

struct TransportBackend::Pending {
  c10::intrusive_ptr<TransportWork> work;
  Call call;
  std::shared_ptr<TensorMemory> memory;
  Operation operation;
};

namespace {

/// All option types of LibTorch have the members `asyncOp` and `timeout`, but
/// no common base class.
template <typename Options>
TransportBackend::SubmitOptions submit_options(const Options& options) {
  TransportBackend::SubmitOptions result{.async = options.asyncOp};
  if (options.timeout.count() > 0) {
    result.timeout =
        std::chrono::duration_cast<std::chrono::milliseconds>(options.timeout);
  }
  return result;
}

}  // namespace

TransportBackend::TransportBackend(
    std::unique_ptr<Transport> transport,
    std::string name,
    std::shared_ptr<std::atomic<bool>> aborted)
    : c10d::Backend(transport->rank(), transport->size()),
      transport_(std::move(transport)),
      name_(std::move(name)),
      aborted_(std::move(aborted)) {
}

TransportBackend::~TransportBackend() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    // No caller is left to wait for pending operations.
    if (busy_ || !queue_.empty()) {
      aborted_->store(true);
    }
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void TransportBackend::abort() {
  aborted_->store(true);
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) {
    failure_ = "the group was aborted";
  }
}

void TransportBackend::refuse_if_failed() {
  if (!failure_.empty()) {
    throw DistributedError(
        str_cat(
            "this group of ",
            getSize(),
            " ranks is unusable after an error: ",
            failure_),
        "restart the run; it can resume from a checkpoint");
  }
}

void TransportBackend::note_failure(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const MismatchError&) {
    // Every rank has thrown this error, so all ranks are still at the same
    // call.
  } catch (const OutOfMemoryError&) {
    // `allocate` fails on all ranks or on no rank, so all ranks are still at
    // the same call.
  } catch (const std::exception& failure) {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) {
      failure_ = failure.what();
    }
  }
}

TransportBackend::WorkPtr TransportBackend::submit(
    OpType type, SubmitOptions options, Tensors results, Operation operation) {
  std::unique_lock lock(mutex_);
  refuse_if_failed();
  const std::uint64_t number = ++sequence_;
  const Call* outer = CallScope::current();
  Pending pending{
      c10::make_intrusive<TransportWork>(getRank(), type, std::move(results)),
      outer != nullptr ? *outer : Call{c10d::opTypeToString(type), number},
      std::make_shared<TensorMemory>(),
      std::move(operation)};
  if (options.timeout) {
    pending.call.timeout = options.timeout;
  }
  pending.call.memory = pending.memory;
  auto work = pending.work;
  if (!options.async && !busy_ && queue_.empty()) {
    busy_ = true;
    lock.unlock();
    run(pending);
    lock.lock();
    busy_ = false;
    lock.unlock();
    changed_.notify_all();
    return work;
  }
  queue_.push_back(std::move(pending));
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { run_queue(); });
  }
  lock.unlock();
  changed_.notify_all();
  if (!options.async) {
    work->wait();
  }
  return work;
}

// Stores the failure before completing the work, so that a caller that gets the
// error also finds that the backend rejects further calls.
void TransportBackend::run(Pending& pending) {
  std::exception_ptr error;
  try {
    pending.operation(pending.call, *pending.memory);
    pending.memory->copy_back();
  } catch (...) {
    error = std::current_exception();
    note_failure(error);
  }
  pending.work->complete(error);
}

void TransportBackend::run_queue() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(
        lock, [&] { return !busy_ && (stopping_ || !queue_.empty()); });
    if (queue_.empty()) {
      return;
    }
    Pending pending = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    run(pending);
    // Releases the tensors before other threads see that the backend is idle.
    pending = {};
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

TransportBackend::WorkPtr TransportBackend::broadcast(
    Tensors& tensors, const c10d::BroadcastOptions& options) {
  const auto root = static_cast<int>(options.rootRank);
  check_rank("broadcast", root, getSize());
  const at::Tensor tensor = only_tensor("broadcast", tensors);
  return submit(
      OpType::BROADCAST,
      submit_options(options),
      tensors,
      [this, tensor, root](const Call& call, TensorMemory& memory) {
        accelerate::broadcast(*transport_, call, memory.output(tensor), root);
      });
}

TransportBackend::WorkPtr TransportBackend::allreduce(
    Tensors& tensors, const c10d::AllreduceOptions& options) {
  const ReduceKind kind = reduce_kind(options.reduceOp);
  const at::Tensor tensor = only_tensor("allreduce", tensors);
  check_reducible(kind, tensor.scalar_type());
  return submit(
      OpType::ALLREDUCE,
      submit_options(options),
      tensors,
      [this, tensor, kind](const Call& call, TensorMemory& memory) {
        all_reduce(
            *transport_,
            call,
            memory.output(tensor),
            {kind, tensor.scalar_type()});
      });
}

TransportBackend::WorkPtr TransportBackend::_allgather_base(
    at::Tensor& output,
    at::Tensor& input,
    const c10d::AllgatherOptions& options) {
  check_flat("allgather", output, input, getSize());
  return submit(
      OpType::_ALLGATHER_BASE,
      submit_options(options),
      {output},
      [this, output, input](const Call& call, TensorMemory& memory) {
        all_gather(
            *transport_,
            call,
            memory.input(input),
            equal_parts(memory.output(output), getSize()));
      });
}

TransportBackend::WorkPtr TransportBackend::scatter(
    Tensors& outputs,
    TensorLists& inputs,
    const c10d::ScatterOptions& options) {
  const auto root = static_cast<int>(options.rootRank);
  check_rank("scatter", root, getSize());
  const at::Tensor output = only_tensor("scatter", outputs);
  const Tensors root_tensors =
      list_of_root("scatter", inputs, getRank() == root);
  if (getRank() == root) {
    check_list("scatter", root_tensors, output, getSize());
  }
  return submit(
      OpType::SCATTER,
      submit_options(options),
      outputs,
      [this, root_tensors, output, root](
          const Call& call, TensorMemory& memory) {
        std::vector<ConstBytes> parts;
        for (const at::Tensor& tensor : root_tensors) {
          parts.push_back(memory.input(tensor));
        }
        accelerate::scatter(
            *transport_, call, parts, memory.output(output), root);
      });
}

TransportBackend::WorkPtr TransportBackend::_reduce_scatter_base(
    at::Tensor& output,
    at::Tensor& input,
    const c10d::ReduceScatterOptions& options) {
  const ReduceKind kind = reduce_kind(options.reduceOp);
  check_flat("reduce_scatter", input, output, getSize());
  check_reducible(kind, output.scalar_type());
  return submit(
      OpType::_REDUCE_SCATTER_BASE,
      submit_options(options),
      {output},
      [this, output, input, kind](const Call& call, TensorMemory& memory) {
        accelerate::reduce_scatter(
            *transport_,
            call,
            equal_parts(memory.input(input), getSize()),
            memory.output(output),
            {kind, output.scalar_type()});
      });
}

TransportBackend::WorkPtr TransportBackend::barrier(
    const c10d::BarrierOptions& options) {
  return submit(
      OpType::BARRIER,
      submit_options(options),
      {},
      [this](const Call& call, TensorMemory&) {
        accelerate::barrier(*transport_, call);
      });
}

bool TransportBackend::supportsTensorAlloc(c10::DeviceIndex /*index*/) {
  return transport_->has_shared_memory();
}

at::Tensor TransportBackend::allocateTensor(
    long size, at::TensorOptions options) {
  if (!transport_->has_shared_memory()) {
    throw UnsupportedError(
        str_cat("the ", name_, " backend has no shared memory"),
        "call `supportsTensorAlloc` first, and use an ordinary tensor if it "
        "returns false");
  }
  const auto type = c10::typeMetaToScalarType(options.dtype());
  std::shared_ptr<std::byte> block;
  submit(OpType::UNKNOWN, {}, {}, [&](const Call& call, TensorMemory&) {
    block = transport_->allocate_shared(
        call, static_cast<std::size_t>(size) * c10::elementSize(type));
  })->wait();
  void* data = block.get();
  return at::from_blob(
      data, {size}, [block = std::move(block)](void*) {}, options);
}

}  // namespace accelerate
