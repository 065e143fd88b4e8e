// SPDX-License-Identifier: Apache-2.0
// The reductions of `MpiBackend`.
#include <utility>

#include "comm/backends/mpi/backend.h"

namespace accelerate::mpi {
namespace {

// Equal shares of one buffer, in rank order.
std::vector<ConstBytes> shares(ConstBytes whole, int size) {
  std::vector<ConstBytes> chunks;
  const std::size_t bytes = whole.size() / static_cast<std::size_t>(size);
  for (std::size_t r = 0; r < static_cast<std::size_t>(size); ++r) {
    chunks.push_back(whole.subspan(r * bytes, bytes));
  }
  return chunks;
}

}  // namespace

c10::intrusive_ptr<c10d::Work> MpiBackend::reduce_all(
    Call call, const c10d::ReduceOp& op) {
  std::vector<Reduction> reductions;
  for (const at::Tensor& tensor : call.results) {
    check_tensor(call.name, tensor);
    reductions.push_back(reduction_of(op, tensor));
  }
  auto tensors = call.results;
  return submit(
      std::move(call),
      [tensors, reductions](Collectives& collectives, Tensors& memory) {
        for (std::size_t i = 0; i < tensors.size(); ++i) {
          collectives.all_reduce(reductions[i], memory.in_out(tensors[i]));
        }
      });
}

c10::intrusive_ptr<c10d::Work> MpiBackend::allreduce(
    Tensors1& tensors, const c10d::AllreduceOptions& options) {
  only_tensor("all_reduce", tensors);
  return reduce_all(
      {c10d::OpType::ALLREDUCE,
       "all_reduce",
       options.timeout,
       options.asyncOp,
       tensors},
      options.reduceOp);
}

c10::intrusive_ptr<c10d::Work> MpiBackend::allreduce_coalesced(
    Tensors1& tensors, const c10d::AllreduceCoalescedOptions& options) {
  return reduce_all(
      {c10d::OpType::ALLREDUCE_COALESCED,
       "all_reduce_coalesced",
       options.timeout,
       options.asyncOp,
       tensors},
      options.reduceOp);
}

c10::intrusive_ptr<c10d::Work> MpiBackend::reduce(
    Tensors1& tensors, const c10d::ReduceOptions& options) {
  const at::Tensor tensor = only_tensor("reduce", tensors);
  check_root("reduce", options.rootRank, options.rootTensor, getSize());
  const Reduction reduction = reduction_of(options.reduceOp, tensor);
  const int root = static_cast<int>(options.rootRank);
  const bool is_root = root == getRank();
  return submit(
      {c10d::OpType::REDUCE,
       "reduce",
       options.timeout,
       options.asyncOp,
       tensors},
      [=](Collectives& collectives, Tensors& memory) {
        const ConstBytes input = memory.input(tensor);
        const Bytes output = is_root ? memory.output(tensor) : Bytes();
        collectives.reduce(reduction, input, output, root);
      });
}

c10::intrusive_ptr<c10d::Work> MpiBackend::scatter_reduced(
    Call call, Tensors1 inputs, const c10d::ReduceOp& op) {
  check_count(
      call.name,
      "inputs",
      static_cast<std::int64_t>(inputs.size()),
      static_cast<std::int64_t>(call.results.size()));
  std::vector<Reduction> reductions;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_tensors(call.name, {inputs[i], call.results[i]});
    check_same_type(call.name, {inputs[i], call.results[i]});
    check_count(
        call.name,
        "input elements",
        inputs[i].numel(),
        call.results[i].numel() * getSize());
    reductions.push_back(reduction_of(op, inputs[i]));
  }
  auto outputs = call.results;
  return submit(
      std::move(call), [=](Collectives& collectives, Tensors& memory) {
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          collectives.reduce_scatter(
              reductions[i],
              shares(memory.input(inputs[i]), collectives.size()),
              memory.output(outputs[i]));
        }
      });
}

c10::intrusive_ptr<c10d::Work> MpiBackend::_reduce_scatter_base(
    at::Tensor& output,
    at::Tensor& input,
    const c10d::ReduceScatterOptions& options) {
  return scatter_reduced(
      {c10d::OpType::_REDUCE_SCATTER_BASE,
       "reduce_scatter",
       options.timeout,
       options.asyncOp,
       {output}},
      {input},
      options.reduceOp);
}

c10::intrusive_ptr<c10d::Work> MpiBackend::reduce_scatter_tensor_coalesced(
    Tensors1& outputs,
    Tensors1& inputs,
    const c10d::ReduceScatterOptions& options) {
  return scatter_reduced(
      {c10d::OpType::COALESCED,
       "reduce_scatter_coalesced",
       options.timeout,
       options.asyncOp,
       outputs},
      inputs,
      options.reduceOp);
}

c10::intrusive_ptr<c10d::Work> MpiBackend::reduce_scatter(
    Tensors1& outputs,
    Tensors2& inputs,
    const c10d::ReduceScatterOptions& options) {
  constexpr const char* kName = "reduce_scatter";
  const at::Tensor output = only_tensor(kName, outputs);
  check_count(
      kName, "input lists", static_cast<std::int64_t>(inputs.size()), 1);
  const Tensors1 chunks = inputs[0];
  check_count(
      kName, "inputs", static_cast<std::int64_t>(chunks.size()), getSize());
  check_tensors(kName, chunks);
  for (const at::Tensor& chunk : chunks) {
    check_same_type(kName, {output, chunk});
    check_count(kName, "elements in an input", chunk.numel(), output.numel());
  }
  const Reduction reduction = reduction_of(options.reduceOp, output);
  return submit(
      {c10d::OpType::REDUCE_SCATTER,
       kName,
       options.timeout,
       options.asyncOp,
       outputs},
      [=](Collectives& collectives, Tensors& memory) {
        std::vector<ConstBytes> rows;
        for (const at::Tensor& chunk : chunks) {
          rows.push_back(memory.input(chunk));
        }
        collectives.reduce_scatter(reduction, rows, memory.output(output));
      });
}

}  // namespace accelerate::mpi
