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
  Operation operation;
};

namespace {

/// The options types of LibTorch all have these two members, but no common
/// base.
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
    failure_ = "it was aborted";
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
    // Every rank has thrown this error, so all ranks are still in step.
  } catch (const OutOfMemoryError&) {
    // Likewise: `allocate` fails on every rank or on none.
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
      std::move(operation)};
  if (options.timeout) {
    pending.call.timeout = options.timeout;
  }
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

void TransportBackend::run(Pending& pending) {
  const auto error =
      pending.work->run([&] { pending.operation(pending.call); });
  if (error) {
    note_failure(error);
  }
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
      [this, tensor, root](const Call& call) {
        TensorMemory memory(tensor);
        accelerate::broadcast(*transport_, call, memory.bytes(), root);
        memory.copy_back();
      });
}

TransportBackend::WorkPtr TransportBackend::allreduce(
    Tensors& tensors, const c10d::AllreduceOptions& options) {
  only_tensor("allreduce", tensors);
  c10d::AllreduceCoalescedOptions all;
  static_cast<c10d::AllreduceOptions&>(all) = options;
  return allreduce_coalesced(tensors, all);
}

TransportBackend::WorkPtr TransportBackend::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  const ReduceKind kind = reduce_kind(options.reduceOp);
  for (const at::Tensor& tensor : tensors) {
    check_tensor("allreduce", tensor);
    check_reducible(kind, tensor.scalar_type());
  }
  return submit(
      OpType::ALLREDUCE,
      submit_options(options),
      tensors,
      [this, tensors, kind](const Call& call) {
        for (const at::Tensor& tensor : tensors) {
          TensorMemory memory(tensor);
          all_reduce(
              *transport_, call, memory.bytes(), {kind, tensor.scalar_type()});
          memory.copy_back();
        }
      });
}

TransportBackend::WorkPtr TransportBackend::reduce(
    Tensors& tensors, const c10d::ReduceOptions& options) {
  const ReduceKind kind = reduce_kind(options.reduceOp);
  const auto root = static_cast<int>(options.rootRank);
  check_rank("reduce", root, getSize());
  const at::Tensor tensor = only_tensor("reduce", tensors);
  check_reducible(kind, tensor.scalar_type());
  return submit(
      OpType::REDUCE,
      submit_options(options),
      tensors,
      [this, tensor, kind, root](const Call& call) {
        TensorMemory memory(tensor);
        accelerate::reduce(
            *transport_,
            call,
            memory.bytes(),
            {kind, tensor.scalar_type()},
            root);
        memory.copy_back();
      });
}

TransportBackend::WorkPtr TransportBackend::allgather(
    TensorLists& outputs,
    Tensors& inputs,
    const c10d::AllgatherOptions& options) {
  only_tensor("allgather", inputs);
  return allgather_coalesced(outputs, inputs, options);
}

TransportBackend::WorkPtr TransportBackend::allgather_coalesced(
    TensorLists& outputs,
    Tensors& inputs,
    const c10d::AllgatherOptions& options) {
  check_count("allgather", "output lists", outputs.size(), inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_list("allgather", outputs[i], inputs[i], getSize());
  }
  return submit(
      OpType::ALLGATHER,
      submit_options(options),
      flatten(outputs),
      [this, outputs, inputs](const Call& call) {
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          const TensorMemory in(inputs[i]);
          MemoryList outs(outputs[i]);
          all_gather(*transport_, call, in.bytes(), outs.bytes());
          outs.copy_back();
        }
      });
}

TransportBackend::WorkPtr TransportBackend::_allgather_base(
    at::Tensor& output,
    at::Tensor& input,
    const c10d::AllgatherOptions& options) {
  Tensors outputs = {output};
  Tensors inputs = {input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

TransportBackend::WorkPtr TransportBackend::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  check_count("allgather", "outputs", outputs.size(), inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_flat("allgather", outputs[i], inputs[i], getSize());
  }
  return submit(
      OpType::_ALLGATHER_BASE,
      submit_options(options),
      outputs,
      [this, outputs, inputs](const Call& call) {
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          const TensorMemory in(inputs[i]);
          TensorMemory out(outputs[i]);
          all_gather(
              *transport_,
              call,
              in.bytes(),
              equal_parts(out.bytes(), getSize()));
          out.copy_back();
        }
      });
}

TransportBackend::WorkPtr TransportBackend::gather(
    TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  const auto root = static_cast<int>(options.rootRank);
  check_rank("gather", root, getSize());
  const at::Tensor input = only_tensor("gather", inputs);
  const Tensors root_tensors =
      list_of_root("gather", outputs, getRank() == root);
  if (getRank() == root) {
    check_list("gather", root_tensors, input, getSize());
  }
  return submit(
      OpType::GATHER,
      submit_options(options),
      root_tensors,
      [this, root_tensors, input, root](const Call& call) {
        const TensorMemory in(input);
        MemoryList outs(root_tensors);
        accelerate::gather(*transport_, call, in.bytes(), outs.bytes(), root);
        outs.copy_back();
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
      [this, root_tensors, output, root](const Call& call) {
        const MemoryList ins(root_tensors);
        TensorMemory out(output);
        accelerate::scatter(
            *transport_, call, ins.const_bytes(), out.bytes(), root);
        out.copy_back();
      });
}

TransportBackend::WorkPtr TransportBackend::reduce_scatter(
    Tensors& outputs,
    TensorLists& inputs,
    const c10d::ReduceScatterOptions& options) {
  const ReduceKind kind = reduce_kind(options.reduceOp);
  const at::Tensor output = only_tensor("reduce_scatter", outputs);
  check_count("reduce_scatter", "input lists", inputs.size(), 1);
  check_list("reduce_scatter", inputs[0], output, getSize());
  check_reducible(kind, output.scalar_type());
  return submit(
      OpType::REDUCE_SCATTER,
      submit_options(options),
      outputs,
      [this, list = inputs[0], output, kind](const Call& call) {
        const MemoryList ins(list);
        TensorMemory out(output);
        accelerate::reduce_scatter(
            *transport_,
            call,
            ins.const_bytes(),
            out.bytes(),
            {kind, output.scalar_type()});
        out.copy_back();
      });
}

TransportBackend::WorkPtr TransportBackend::_reduce_scatter_base(
    at::Tensor& output,
    at::Tensor& input,
    const c10d::ReduceScatterOptions& options) {
  Tensors outputs = {output};
  Tensors inputs = {input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

TransportBackend::WorkPtr TransportBackend::reduce_scatter_tensor_coalesced(
    Tensors& outputs,
    Tensors& inputs,
    const c10d::ReduceScatterOptions& options) {
  const ReduceKind kind = reduce_kind(options.reduceOp);
  check_count("reduce_scatter", "outputs", outputs.size(), inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_flat("reduce_scatter", inputs[i], outputs[i], getSize());
    check_reducible(kind, outputs[i].scalar_type());
  }
  return submit(
      OpType::_REDUCE_SCATTER_BASE,
      submit_options(options),
      outputs,
      [this, outputs, inputs, kind](const Call& call) {
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          const TensorMemory in(inputs[i]);
          TensorMemory out(outputs[i]);
          accelerate::reduce_scatter(
              *transport_,
              call,
              const_parts(equal_parts(in.bytes(), getSize())),
              out.bytes(),
              {kind, outputs[i].scalar_type()});
          out.copy_back();
        }
      });
}

TransportBackend::WorkPtr TransportBackend::alltoall(
    Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) {
  check_count("alltoall", "outputs", outputs.size(), getSize());
  check_count("alltoall", "inputs", inputs.size(), getSize());
  for (const Tensors& list : {outputs, inputs}) {
    for (const at::Tensor& tensor : list) {
      check_tensor("alltoall", tensor);
    }
  }
  return submit(
      OpType::ALLTOALL,
      submit_options(options),
      outputs,
      [this, outputs, inputs](const Call& call) {
        const MemoryList ins(inputs);
        MemoryList outs(outputs);
        all_to_all(*transport_, call, ins.const_bytes(), outs.bytes());
        outs.copy_back();
      });
}

TransportBackend::WorkPtr TransportBackend::alltoall_base(
    at::Tensor& output,
    at::Tensor& input,
    std::vector<std::int64_t>& output_splits,
    std::vector<std::int64_t>& input_splits,
    const c10d::AllToAllOptions& options) {
  check_tensor("alltoall", output);
  check_tensor("alltoall", input);
  const auto out_rows =
      split_rows("alltoall", output, output_splits, getSize());
  const auto in_rows = split_rows("alltoall", input, input_splits, getSize());
  return submit(
      OpType::ALLTOALL_BASE,
      submit_options(options),
      {output},
      [this, output, input, out_rows, in_rows](const Call& call) {
        const TensorMemory in(input);
        TensorMemory out(output);
        all_to_all(
            *transport_,
            call,
            const_parts(parts_by_rows(in.bytes(), in_rows)),
            parts_by_rows(out.bytes(), out_rows));
        out.copy_back();
      });
}

TransportBackend::WorkPtr TransportBackend::send(
    Tensors& tensors, int to, int tag) {
  check_rank("send", to, getSize());
  auto memory = std::make_shared<TensorMemory>(only_tensor("send", tensors));
  {
    const std::lock_guard lock(mutex_);
    refuse_if_failed();
  }
  auto work =
      c10::make_intrusive<TransportWork>(getRank(), OpType::SEND, tensors);
  transport_->send(
      to,
      tag,
      memory->bytes(),
      [work, memory](std::exception_ptr error, int other_rank) {
        work->complete(std::move(error), other_rank);
      });
  return work;
}

TransportBackend::WorkPtr TransportBackend::recv(
    Tensors& tensors, int from, int tag) {
  if (from != kAnyRank) {
    check_rank("recv", from, getSize());
  }
  auto memory = std::make_shared<TensorMemory>(only_tensor("recv", tensors));
  {
    const std::lock_guard lock(mutex_);
    refuse_if_failed();
  }
  auto work =
      c10::make_intrusive<TransportWork>(getRank(), OpType::RECV, tensors);
  transport_->receive(
      from,
      tag,
      memory->bytes(),
      [work, memory](std::exception_ptr error, int other_rank) {
        if (!error) {
          memory->copy_back();
        }
        work->complete(std::move(error), other_rank);
      });
  return work;
}

TransportBackend::WorkPtr TransportBackend::recvAnysource(
    Tensors& tensors, int tag) {
  return recv(tensors, kAnyRank, tag);
}

TransportBackend::WorkPtr TransportBackend::barrier(
    const c10d::BarrierOptions& options) {
  return submit(
      OpType::BARRIER, submit_options(options), {}, [this](const Call& call) {
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
        "check `supportsTensorAlloc` first, and use an ordinary tensor if it "
        "returns false");
  }
  const auto type = c10::typeMetaToScalarType(options.dtype());
  std::shared_ptr<std::byte> block;
  submit(OpType::UNKNOWN, {}, {}, [&](const Call& call) {
    block = transport_->allocate_shared(
        call, static_cast<std::size_t>(size) * c10::elementSize(type));
  })->wait();
  void* data = block.get();
  return at::from_blob(
      data, {size}, [block = std::move(block)](void*) {}, options);
}

}  // namespace accelerate
