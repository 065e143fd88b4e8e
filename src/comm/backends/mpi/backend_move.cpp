// SPDX-License-Identifier: Apache-2.0
// The collectives of `MpiBackend` that move data without reducing it.
#include <numeric>
#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "comm/backends/mpi/backend.h"

namespace accelerate::mpi {
namespace {

std::int64_t count(const std::vector<at::Tensor>& tensors) {
  return static_cast<std::int64_t>(tensors.size());
}

std::size_t total_bytes(const std::vector<Bytes>& chunks) {
  return std::accumulate(
      chunks.begin(), chunks.end(), std::size_t{0}, [](std::size_t n, Bytes p) {
        return n + p.size();
      });
}

std::vector<Bytes> outputs_of(
    Tensors& memory, const std::vector<at::Tensor>& tensors) {
  std::vector<Bytes> chunks;
  for (const at::Tensor& tensor : tensors) {
    chunks.push_back(memory.output(tensor));
  }
  return chunks;
}

std::vector<ConstBytes> inputs_of(
    Tensors& memory, const std::vector<at::Tensor>& tensors) {
  std::vector<ConstBytes> chunks;
  for (const at::Tensor& tensor : tensors) {
    chunks.push_back(memory.input(tensor));
  }
  return chunks;
}

// Cuts a buffer into chunks; `splits` is the number of rows in each chunk.
template <typename Span>
std::vector<Span> cut(
    Span whole,
    const std::vector<std::int64_t>& splits,
    std::size_t row_bytes) {
  std::vector<Span> chunks;
  std::size_t begin = 0;
  for (const std::int64_t rows : splits) {
    const std::size_t bytes = static_cast<std::size_t>(rows) * row_bytes;
    chunks.push_back(whole.subspan(begin, bytes));
    begin += bytes;
  }
  return chunks;
}

std::int64_t rows_of(const at::Tensor& tensor) {
  return tensor.dim() == 0 ? 1 : tensor.size(0);
}

std::size_t row_bytes(const at::Tensor& tensor) {
  const auto rows = static_cast<std::size_t>(rows_of(tensor));
  return rows == 0 ? 0 : tensor.nbytes() / rows;
}

// Rows for each rank; equal numbers if `splits` is empty.
std::vector<std::int64_t> checked_splits(
    const char* side,
    const std::vector<std::int64_t>& splits,
    const at::Tensor& tensor,
    int size) {
  constexpr const char* kName = "all_to_all";
  const std::int64_t rows = rows_of(tensor);
  if (splits.empty()) {
    if (rows % size != 0) {
      throw ArgumentError(
          str_cat(
              kName,
              ": the ",
              rows,
              " rows of the ",
              side,
              " cannot be split evenly among ",
              size,
              " ranks"),
          str_cat("pass ", side, " split sizes that add up to ", rows));
    }
    return std::vector<std::int64_t>(
        static_cast<std::size_t>(size), rows / size);
  }
  check_count(
      kName, "split sizes", static_cast<std::int64_t>(splits.size()), size);
  std::int64_t sum = 0;
  for (const std::int64_t split : splits) {
    if (split < 0) {
      throw ArgumentError(
          str_cat(
              kName,
              ": an ",
              side,
              " split size is ",
              split,
              ", but must not be negative"),
          "pass split sizes of 0 or more");
    }
    sum += split;
  }
  if (sum != rows) {
    throw ArgumentError(
        str_cat(
            kName,
            ": the ",
            side,
            " split sizes add up to ",
            sum,
            ", but the number of ",
            side,
            " rows is ",
            rows),
        str_cat("pass ", side, " split sizes that add up to ", rows));
  }
  return splits;
}

}  // namespace

c10::intrusive_ptr<c10d::Work> MpiBackend::barrier(
    const c10d::BarrierOptions& options) {
  return submit(
      {c10d::OpType::BARRIER, "barrier", options.timeout, options.asyncOp, {}},
      [](Collectives& collectives, Tensors&) { collectives.barrier(); });
}

c10::intrusive_ptr<c10d::Work> MpiBackend::broadcast(
    Tensors1& tensors, const c10d::BroadcastOptions& options) {
  const at::Tensor tensor = only_tensor("broadcast", tensors);
  check_root("broadcast", options.rootRank, options.rootTensor, getSize());
  const int root = static_cast<int>(options.rootRank);
  return submit(
      {c10d::OpType::BROADCAST,
       "broadcast",
       options.timeout,
       options.asyncOp,
       tensors},
      [tensor, root](Collectives& collectives, Tensors& memory) {
        collectives.broadcast(memory.in_out(tensor), root);
      });
}

c10::intrusive_ptr<c10d::Work> MpiBackend::allgather(
    Tensors2& outputs,
    Tensors1& inputs,
    const c10d::AllgatherOptions& options) {
  constexpr const char* kName = "all_gather";
  const at::Tensor input = only_tensor(kName, inputs);
  check_count(
      kName, "output lists", static_cast<std::int64_t>(outputs.size()), 1);
  const Tensors1 chunks = outputs[0];
  check_count(kName, "outputs", count(chunks), getSize());
  check_tensors(kName, chunks);
  for (const at::Tensor& chunk : chunks) {
    check_same_type(kName, {input, chunk});
  }
  check_count(
      kName,
      "elements in this rank's output",
      chunks[static_cast<std::size_t>(getRank())].numel(),
      input.numel());
  return submit(
      {c10d::OpType::ALLGATHER,
       kName,
       options.timeout,
       options.asyncOp,
       chunks},
      [=](Collectives& collectives, Tensors& memory) {
        const std::vector<Bytes> from = outputs_of(memory, chunks);
        const std::vector<ConstBytes> to(from.size(), memory.input(input));
        collectives.exchange(to, from, total_bytes(from));
      });
}

c10::intrusive_ptr<c10d::Work> MpiBackend::gather_tensors(
    Call call, Tensors1 inputs) {
  check_count(call.name, "inputs", count(inputs), count(call.results));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_tensors(call.name, {inputs[i], call.results[i]});
    check_same_type(call.name, {inputs[i], call.results[i]});
    check_count(
        call.name,
        "output elements",
        call.results[i].numel(),
        inputs[i].numel() * getSize());
  }
  auto outputs = call.results;
  return submit(
      std::move(call), [=](Collectives& collectives, Tensors& memory) {
        const auto ranks = static_cast<std::size_t>(collectives.size());
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          const ConstBytes own_rows = memory.input(inputs[i]);
          const Bytes all = memory.output(outputs[i]);
          const std::vector<std::int64_t> ones(ranks, 1);
          collectives.exchange(
              std::vector<ConstBytes>(ranks, own_rows),
              cut(all, ones, own_rows.size()),
              all.size());
        }
      });
}

c10::intrusive_ptr<c10d::Work> MpiBackend::_allgather_base(
    at::Tensor& output,
    at::Tensor& input,
    const c10d::AllgatherOptions& options) {
  return gather_tensors(
      {c10d::OpType::_ALLGATHER_BASE,
       "all_gather",
       options.timeout,
       options.asyncOp,
       {output}},
      {input});
}

c10::intrusive_ptr<c10d::Work> MpiBackend::allgather_into_tensor_coalesced(
    Tensors1& outputs,
    Tensors1& inputs,
    const c10d::AllgatherOptions& options) {
  return gather_tensors(
      {c10d::OpType::COALESCED,
       "all_gather_coalesced",
       options.timeout,
       options.asyncOp,
       outputs},
      inputs);
}

c10::intrusive_ptr<c10d::Work> MpiBackend::gather(
    Tensors2& outputs, Tensors1& inputs, const c10d::GatherOptions& options) {
  constexpr const char* kName = "gather";
  const at::Tensor input = only_tensor(kName, inputs);
  check_rank(kName, options.rootRank, getSize());
  const bool is_root = options.rootRank == getRank();
  check_count(
      kName,
      "output lists",
      static_cast<std::int64_t>(outputs.size()),
      is_root ? 1 : 0);
  const Tensors1 chunks = is_root ? outputs[0] : Tensors1();
  check_count(kName, "outputs", count(chunks), is_root ? getSize() : 0);
  check_tensors(kName, chunks);
  for (const at::Tensor& chunk : chunks) {
    check_same_type(kName, {input, chunk});
    check_count(kName, "elements in an output", chunk.numel(), input.numel());
  }
  const auto root = static_cast<std::size_t>(options.rootRank);
  return submit(
      {c10d::OpType::GATHER, kName, options.timeout, options.asyncOp, chunks},
      [=](Collectives& collectives, Tensors& memory) {
        const auto ranks = static_cast<std::size_t>(collectives.size());
        std::vector<ConstBytes> to(ranks);
        to[root] = memory.input(input);
        std::vector<Bytes> from(ranks);
        if (is_root) {
          from = outputs_of(memory, chunks);
        }
        collectives.exchange(to, from, to[root].size() * ranks);
      });
}

c10::intrusive_ptr<c10d::Work> MpiBackend::scatter(
    Tensors1& outputs, Tensors2& inputs, const c10d::ScatterOptions& options) {
  constexpr const char* kName = "scatter";
  const at::Tensor output = only_tensor(kName, outputs);
  check_rank(kName, options.rootRank, getSize());
  const bool is_root = options.rootRank == getRank();
  check_count(
      kName,
      "input lists",
      static_cast<std::int64_t>(inputs.size()),
      is_root ? 1 : 0);
  const Tensors1 chunks = is_root ? inputs[0] : Tensors1();
  check_count(kName, "inputs", count(chunks), is_root ? getSize() : 0);
  check_tensors(kName, chunks);
  for (const at::Tensor& chunk : chunks) {
    check_same_type(kName, {output, chunk});
    check_count(kName, "elements in an input", chunk.numel(), output.numel());
  }
  const auto root = static_cast<std::size_t>(options.rootRank);
  return submit(
      {c10d::OpType::SCATTER, kName, options.timeout, options.asyncOp, outputs},
      [=](Collectives& collectives, Tensors& memory) {
        const auto ranks = static_cast<std::size_t>(collectives.size());
        std::vector<Bytes> from(ranks);
        from[root] = memory.output(output);
        std::vector<ConstBytes> to(ranks);
        if (is_root) {
          to = inputs_of(memory, chunks);
        }
        collectives.exchange(to, from, from[root].size() * ranks);
      });
}

c10::intrusive_ptr<c10d::Work> MpiBackend::alltoall(
    Tensors1& outputs, Tensors1& inputs, const c10d::AllToAllOptions& options) {
  constexpr const char* kName = "all_to_all";
  check_count(kName, "outputs", count(outputs), getSize());
  check_count(kName, "inputs", count(inputs), getSize());
  check_tensors(kName, inputs);
  check_tensors(kName, outputs);
  check_same_type(kName, inputs);
  check_same_type(kName, {inputs[0], outputs[0]});
  check_same_type(kName, outputs);
  const auto own = static_cast<std::size_t>(getRank());
  check_count(
      kName,
      "elements in this rank's output",
      outputs[own].numel(),
      inputs[own].numel());
  return submit(
      {c10d::OpType::ALLTOALL,
       kName,
       options.timeout,
       options.asyncOp,
       outputs},
      [outputs, inputs](Collectives& collectives, Tensors& memory) {
        // Chunks may differ in size, so the total of the other ranks is
        // unknown.
        collectives.exchange(
            inputs_of(memory, inputs), outputs_of(memory, outputs), 0);
      });
}

c10::intrusive_ptr<c10d::Work> MpiBackend::alltoall_base(
    at::Tensor& output,
    at::Tensor& input,
    std::vector<std::int64_t>& output_splits,
    std::vector<std::int64_t>& input_splits,
    const c10d::AllToAllOptions& options) {
  constexpr const char* kName = "all_to_all";
  check_tensors(kName, {input, output});
  check_same_type(kName, {input, output});
  const auto to = checked_splits("input", input_splits, input, getSize());
  const auto from = checked_splits("output", output_splits, output, getSize());
  const auto own = static_cast<std::size_t>(getRank());
  check_count(
      kName, "rows that this rank receives from itself", from[own], to[own]);
  if (input.numel() != 0 && output.numel() != 0) {
    check_count(
        kName,
        "elements in an output row",
        output.numel() / rows_of(output),
        input.numel() / rows_of(input));
  }
  return submit(
      {c10d::OpType::ALLTOALL_BASE,
       kName,
       options.timeout,
       options.asyncOp,
       {output}},
      [=, output = output, input = input](
          Collectives& collectives, Tensors& memory) {
        collectives.exchange(
            cut(memory.input(input), to, row_bytes(input)),
            cut(memory.output(output), from, row_bytes(output)),
            0);
      });
}

}  // namespace accelerate::mpi
