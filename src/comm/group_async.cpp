// SPDX-License-Identifier: Apache-2.0
// The operations of a group that return before they have finished.
#include <exception>
#include <utility>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "accelerate/group.h"
#include "base/str_cat.h"
#include "comm/backends/transport_work.h"
#include "comm/group_impl.h"
#include "comm/reduce_kernels.h"
#include "device/error_line.h"

namespace accelerate {
namespace {

// An operation that failed before it started.
class FailedWork : public c10d::Work {
 public:
  explicit FailedWork(std::exception_ptr error) { finish(std::move(error)); }
};

void check_in_place(const char* operation, const Tensor& tensor) {
  if (!tensor.defined()) {
    throw ArgumentError(
        str_cat(operation, " got an undefined tensor"),
        "pass defined tensors on every rank");
  }
  if (!tensor.is_contiguous()) {
    throw ArgumentError(
        str_cat(
            operation,
            " got a tensor of shape ",
            tensor.sizes(),
            " that is not contiguous"),
        "pass `tensor.contiguous()`");
  }
  if (tensor.is_conj() || tensor.is_neg()) {
    throw ArgumentError(
        str_cat(
            operation,
            " got a tensor of shape ",
            tensor.sizes(),
            " that is a lazy ",
            tensor.is_conj() ? "conjugate" : "negative"),
        "pass `tensor.resolve_conj().resolve_neg()`");
  }
}

// Throws unless `whole` has `size` times as many elements as `part`.
void check_parts(
    const char* operation,
    const Tensor& whole,
    const Tensor& part,
    int num_parts) {
  check_in_place(operation, whole);
  check_in_place(operation, part);
  if (whole.numel() != part.numel() * num_parts ||
      whole.scalar_type() != part.scalar_type() ||
      whole.device() != part.device()) {
    throw ArgumentError(
        str_cat(
            operation,
            " got ",
            whole.scalar_type(),
            whole.sizes(),
            " on ",
            whole.device(),
            " and ",
            part.scalar_type(),
            part.sizes(),
            " on ",
            part.device(),
            " in a group of ",
            num_parts,
            " ranks"),
        str_cat(
            "pass tensors of one type on one device, the larger with ",
            num_parts,
            " times as many elements as the smaller"));
  }
}

c10d::ReduceOp op_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return c10d::ReduceOp::SUM;
    case Reduction::mean:
      return c10d::ReduceOp::AVG;
    case Reduction::max:
      return c10d::ReduceOp::MAX;
    case Reduction::min:
      return c10d::ReduceOp::MIN;
  }
  throw InternalError("an unknown reduction");
}

ReduceKind kind_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return ReduceKind::sum;
    case Reduction::mean:
      return ReduceKind::avg;
    case Reduction::max:
      return ReduceKind::max;
    case Reduction::min:
      return ReduceKind::min;
  }
  throw InternalError("an unknown reduction");
}

// The type and reduction that Gloo uses instead of a type that it does not
// support.
struct GlooSubstitute {
  at::ScalarType type;
  Reduction reduction;
};

GlooSubstitute gloo_substitute(at::ScalarType type, Reduction reduction) {
  switch (type) {
    case at::kBool:  // A sum of bools is true if any of the bools is true.
      return {
          at::kByte, reduction == Reduction::sum ? Reduction::max : reduction};
    case at::kShort:
      return {at::kInt, reduction};
    default:
      return {type, reduction};
  }
}

}  // namespace

void check_reduction(Reduction reduction, const Tensor& tensor) {
  if (reduction == Reduction::mean && !tensor.is_floating_point() &&
      !tensor.is_complex()) {
    throw ArgumentError(
        str_cat(
            "reduce: cannot compute the mean of ",
            tensor.scalar_type(),
            " tensors"),
        "convert with `tensor.to(torch::kFloat)`, or use Reduction::sum");
  }
  if (tensor.is_cpu()) {
    check_reducible(kind_of(reduction), tensor.scalar_type());
  }
}

void Operation::then(std::function<void()> step) {
  finish = [before = std::move(finish), after = std::move(step)] {
    if (before) {
      before();
    }
    after();
  };
}

// Chooses between the backends for host memory and for the device. After a rank
// has died, a backend throws at the next operation; `wait` then names the dead
// ranks.
Operation Group::Impl::start(
    const Tensor& tensor, const Call& call, const StartOnBackend& start) {
  const bool on_device = !tensor.is_cpu();
  const auto& chosen = on_device ? device_backend : backend;
  Operation operation{call, {}, on_device};
  if (!chosen || tensor.numel() == 0) {
    return operation;  // nothing to transfer
  }
  try {
    const CallScope scope(call);
    operation.work = start(*chosen);
  } catch (const std::exception&) {
    operation.work = c10::make_intrusive<FailedWork>(std::current_exception());
  }
  return operation;
}

bool Group::Impl::uses_gloo(const Tensor& tensor) const {
  return tensor.is_cpu() && backend && backend->getBackendName() == "gloo";
}

bool Group::Impl::must_stage(const Tensor& tensor) const {
  return context.size > 1 && !device_backend && !tensor.is_cpu();
}

Operation Group::Impl::start_all_reduce(
    const Tensor& tensor, Reduction reduction, const Call& call, bool overlap) {
  if (must_stage(tensor)) {
    const Tensor copy = tensor.cpu();
    check_reduction(reduction, copy);
    Operation operation = start_all_reduce(copy, reduction, call, overlap);
    operation.then([tensor, copy] { tensor.copy_(copy); });
    return operation;
  }
  const GlooSubstitute substitute =
      uses_gloo(tensor) ? gloo_substitute(tensor.scalar_type(), reduction)
                        : GlooSubstitute{tensor.scalar_type(), reduction};
  c10d::AllreduceOptions all_reduce_options;
  all_reduce_options.reduceOp = op_of(substitute.reduction);
  all_reduce_options.asyncOp = overlap;
  std::vector<Tensor> tensors = {tensor.to(substitute.type)};
  Operation operation = start(tensors[0], call, [&](c10d::Backend& any) {
    return any.allreduce(tensors, all_reduce_options);
  });
  if (!tensors[0].is_same(tensor)) {
    operation.then([tensor, result = tensors[0]] { tensor.copy_(result); });
  }
  return operation;
}

Operation Group::Impl::start_reduce_scatter(
    const Tensor& output,
    const Tensor& input,
    Reduction reduction,
    const Call& call,
    bool overlap) {
  if (must_stage(output)) {
    const Tensor copy = output.cpu();
    Operation operation =
        start_reduce_scatter(copy, input.cpu(), reduction, call, overlap);
    operation.then([output, copy] { output.copy_(copy); });
    return operation;
  }
  Tensor to = output.view({-1});
  Tensor from = input.view({-1});
  // Gloo has no reduce-scatter. LibTorch's Gloo backend uses an all-reduce that
  // cannot be polled.
  if (uses_gloo(output)) {
    const Tensor sums = from.clone();
    Operation operation = start_all_reduce(sums, reduction, call, overlap);
    operation.then([to, sums, begin = to.numel() * context.rank] {
      to.copy_(sums.narrow(0, begin, to.numel()));
    });
    return operation;
  }
  c10d::ReduceScatterOptions scatter_options;
  scatter_options.reduceOp = op_of(reduction);
  scatter_options.asyncOp = overlap;
  return start(output, call, [&](c10d::Backend& any) {
    return any._reduce_scatter_base(to, from, scatter_options);
  });
}

Operation Group::Impl::start_all_gather(
    const Tensor& output, const Tensor& input, const Call& call, bool overlap) {
  if (must_stage(output)) {
    const Tensor copy = output.cpu();
    Operation operation = start_all_gather(copy, input.cpu(), call, overlap);
    operation.then([output, copy] { output.copy_(copy); });
    return operation;
  }
  c10d::AllgatherOptions gather_options;
  gather_options.asyncOp = overlap;
  Tensor to = as_bytes(output);
  Tensor from = as_bytes(input);
  return start(output, call, [&](c10d::Backend& any) {
    return any._allgather_base(to, from, gather_options);
  });
}

Operation Group::Impl::start_broadcast(
    const Tensor& tensor, int from, const Call& call, bool overlap) {
  if (must_stage(tensor)) {
    const Tensor copy = tensor.cpu();
    Operation operation = start_broadcast(copy, from, call, overlap);
    operation.then([tensor, copy] { tensor.copy_(copy); });
    return operation;
  }
  c10d::BroadcastOptions broadcast_options;
  broadcast_options.rootRank = from;
  broadcast_options.asyncOp = overlap;
  std::vector<Tensor> bytes = {as_bytes(tensor)};
  return start(tensor, call, [&](c10d::Backend& any) {
    return any.broadcast(bytes, broadcast_options);
  });
}

Operation Group::Impl::start_scatter(
    const Tensor& output,
    const Tensor& input,
    int from,
    const Call& call,
    bool overlap) {
  c10d::ScatterOptions scatter_options;
  scatter_options.rootRank = from;
  scatter_options.asyncOp = overlap;
  std::vector<Tensor> outputs = {output};
  std::vector<std::vector<Tensor>> inputs;
  if (context.rank == from) {
    inputs.push_back(input.chunk(context.size));
  }
  return start(output, call, [&](c10d::Backend& any) {
    return any.scatter(outputs, inputs, scatter_options);
  });
}

void Group::Impl::finish(Operation& operation) {
  if (operation.work) {
    if (operation.on_device) {
      wait_on_device(operation);
    } else if (
        // Not dynamic_intrusive_pointer_cast, which leaks a reference when the
        // type differs.
        dynamic_cast<const TransportWork*>(operation.work.get()) != nullptr) {
      operation.work->wait();  // A transport checks the ranks while it waits.
    } else {
      (*backend_wait)(operation.work, operation.call, limits);
    }
  }
  if (operation.finish) {
    const at::NoGradGuard guard;
    operation.finish();
  }
}

// Makes only the device's current stream wait.
void Group::Impl::wait_on_device(const Operation& operation) const {
  try {
    operation.work->wait();
  } catch (const std::exception& error) {
    backend_wait->rethrow(operation.call, limits, error_line(error));
  }
}

struct Pending::State {
  std::shared_ptr<Group::Impl> group;
  Operation operation;
};

Pending Group::Impl::pending(Operation operation) {
  return Pending(std::make_unique<Pending::State>(
      shared_from_this(), std::move(operation)));
}

Pending::Pending() = default;
Pending::Pending(std::unique_ptr<State> state) : state_(std::move(state)) {
}
Pending::Pending(Pending&&) noexcept = default;
Pending& Pending::operator=(Pending&&) noexcept = default;
Pending::~Pending() = default;

void Pending::wait() {
  if (const auto state = std::exchange(state_, nullptr)) {
    state->group->guarded(state->operation.call, [&](const Call&) {
      state->group->finish(state->operation);
    });
  }
}

bool Group::supports(c10::Device device) const {
  return device.is_cpu() || impl_->device_backend;
}

Pending Group::start_all_reduce(
    const Tensor& tensor, Reduction reduction) const {
  check_in_place("start_all_reduce", tensor);
  check_reduction(reduction, tensor);
  return impl_->guarded("start_all_reduce", [&](const Call& call) {
    impl_->agree(call, {tensor}, std::string(name_of(reduction)));
    return impl_->pending(impl_->start_all_reduce(tensor, reduction, call));
  });
}

Pending Group::start_reduce_scatter(
    const Tensor& output, const Tensor& input, Reduction reduction) const {
  check_parts("start_reduce_scatter", input, output, size());
  check_reduction(reduction, input);
  if (size() == 1) {
    output.view({-1}).copy_(input.view({-1}));
    return {};
  }
  return impl_->guarded("start_reduce_scatter", [&](const Call& call) {
    impl_->agree(call, {output}, std::string(name_of(reduction)));
    return impl_->pending(
        impl_->start_reduce_scatter(output, input, reduction, call));
  });
}

Pending Group::start_all_gather(
    const Tensor& output, const Tensor& input) const {
  check_parts("start_all_gather", output, input, size());
  if (size() == 1) {
    output.view({-1}).copy_(input.view({-1}));
    return {};
  }
  return impl_->guarded("start_all_gather", [&](const Call& call) {
    impl_->agree(call, {input});
    return impl_->pending(impl_->start_all_gather(output, input, call));
  });
}

Pending Group::start_broadcast(const Tensor& tensor, int from) const {
  check_in_place("start_broadcast", tensor);
  check_from("start_broadcast", from, size());
  return impl_->guarded("start_broadcast", [&](const Call& call) {
    impl_->agree(call, {tensor}, str_cat("from ", from));
    return impl_->pending(impl_->start_broadcast(tensor, from, call));
  });
}

}  // namespace accelerate
