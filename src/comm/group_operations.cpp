// SPDX-License-Identifier: Apache-2.0
// The collectives of a group on tensors and objects.
#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "accelerate/group.h"
#include "base/str_cat.h"
#include "comm/group_impl.h"
#include "comm/reduce_kernels.h"

namespace accelerate {
namespace {

void check_defined(const char* operation, const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors) {
    if (!tensor.defined()) {
      throw ArgumentError(
          str_cat(operation, " got an undefined tensor"),
          "pass defined tensors on every rank");
    }
  }
}

void check_from(const char* operation, int from, int size) {
  if (from < 0 || from >= size) {
    throw ArgumentError(
        str_cat(
            operation,
            ": `from` is ",
            from,
            ", but the group size is ",
            size,
            " (ranks 0–",
            size - 1,
            ")"),
        str_cat("pass a rank from 0 to ", size - 1));
  }
}

// Contiguous, with at least one dimension, detached from autograd.
Tensor as_rows(const Tensor& tensor) {
  const Tensor plain = tensor.detach().contiguous();
  return plain.dim() == 0 ? plain.view({1}) : plain;
}

// As bytes: moving data does not depend on the type.
Tensor as_bytes(const Tensor& contiguous) {
  return contiguous.view({-1}).view(at::kByte);
}

Tensor with_rows(const Tensor& tensor, std::int64_t rows) {
  if (tensor.size(0) == rows) {
    return tensor;
  }
  auto sizes = tensor.sizes().vec();
  sizes[0] = rows;
  Tensor padded = at::zeros(sizes, tensor.options());
  padded.narrow(0, 0, tensor.size(0)).copy_(tensor);
  return padded;
}

Group::Tensors to_cpu(const Group::Tensors& tensors) {
  Group::Tensors copies;
  for (const Tensor& tensor : tensors) {
    copies.push_back(tensor.cpu());
  }
  return copies;
}

Group::Tensors to_devices_of(
    Group::Tensors results, const Group::Tensors& like) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i] = results[i].to(like[i].device());
  }
  return results;
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

void check_types(Reduction reduction, const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors) {
    if (tensor.is_cpu()) {
      check_reducible(kind_of(reduction), tensor.scalar_type());
    }
  }
}

// What Gloo reduces in place of types that it does not support.
struct GlooSubstitute {
  at::ScalarType type;
  Reduction reduction;
};

GlooSubstitute gloo_substitute(at::ScalarType type, Reduction reduction) {
  switch (type) {
    case at::kBool:  // A sum of bools is true if any of them is.
      return {
          at::kByte, reduction == Reduction::sum ? Reduction::max : reduction};
    case at::kShort:
      return {at::kInt, reduction};
    default:
      return {type, reduction};
  }
}

void check_mean(Reduction reduction, const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors) {
    if (reduction == Reduction::mean && !tensor.is_floating_point() &&
        !tensor.is_complex()) {
      throw ArgumentError(
          str_cat(
              "reduce: cannot compute the mean of ",
              tensor.scalar_type(),
              " tensors"),
          "convert with `tensor.to(torch::kFloat)`, or use Reduction::sum");
    }
  }
}

// The same on every rank, including ranks that need no padding.
void check_pad_index(double index, const Tensor& tensor) {
  bool fits = true;
  try {
    const Tensor padding = at::full({}, index, tensor.scalar_type());
    fits = tensor.is_floating_point() || tensor.is_complex() ||
           padding.item<double>() == index;
  } catch (const std::exception&) {
    fits = false;
  }
  if (!fits) {
    throw ArgumentError(
        str_cat(
            "pad_across_processes: pad_index is ",
            index,
            ", which a tensor of type ",
            tensor.scalar_type(),
            " cannot represent"),
        "pass a value that the tensor type can represent, or convert the "
        "tensor first");
  }
}

Tensor padded_to(
    const Tensor& tensor, std::int64_t size, const PadOptions& options) {
  const std::int64_t length = tensor.size(options.dim);
  if (length == size) {
    return tensor;
  }
  auto sizes = tensor.sizes().vec();
  sizes[static_cast<std::size_t>(options.dim)] = size;
  Tensor result = at::full(sizes, options.pad_index, tensor.options());
  const std::int64_t begin = options.pad_first ? size - length : 0;
  result.narrow(options.dim, begin, length).copy_(tensor);
  return result;
}

std::string encode(const std::vector<Json>& objects) {
  const auto bytes = Json(objects).to_cbor();
  return {bytes.begin(), bytes.end()};
}

std::vector<Json> decode(const std::string& text) {
  const auto* begin = reinterpret_cast<const std::uint8_t*>(text.data());
  return Json::from_cbor({begin, text.size()}).as_array();
}

}  // namespace

Group::Tensors Group::gather(const Tensors& tensors) const {
  check_defined("gather", tensors);
  Tensors rows;
  for (const Tensor& tensor : tensors) {
    rows.push_back(as_rows(tensor));
  }
  if (size() == 1) {
    return rows;
  }
  if (impl_->must_stage(rows)) {
    return to_devices_of(gather(to_cpu(rows)), rows);
  }
  return impl_->guarded("gather", [&](const Call& call) {
    const auto records = impl_->agree(call, rows, {}, /*free_dim=*/0);
    Tensors results;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::vector<std::int64_t> counts;
      for (const CallRecord& record : records) {
        counts.push_back(record.tensors[i].sizes[0]);
      }
      results.push_back(impl_->gather_rows(rows[i], counts, call));
    }
    return results;
  });
}

Tensor Group::Impl::gather_rows(
    const Tensor& rows,
    const std::vector<std::int64_t>& counts,
    const Call& call) {
  const std::int64_t most = *std::max_element(counts.begin(), counts.end());
  auto sizes = rows.sizes().vec();
  sizes[0] = most * static_cast<std::int64_t>(counts.size());
  Tensor all = at::empty(sizes, rows.options());
  if (all.numel() > 0) {
    Tensor in = as_bytes(with_rows(rows, most));
    Tensor out = as_bytes(all);
    c10d::AllgatherOptions gather_options;
    gather_options.asyncOp = backend_wait->needs_async();
    run(in, call, [&](c10d::Backend& any_backend) {
      return any_backend._allgather_base(out, in, gather_options);
    });
  }
  if (std::equal(counts.begin() + 1, counts.end(), counts.begin())) {
    return all;
  }
  Tensors parts;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    parts.push_back(
        all.narrow(0, most * static_cast<std::int64_t>(r), counts[r]));
  }
  return at::cat(parts);
}

Group::Tensors Group::reduce(
    const Tensors& tensors, Reduction reduction, double scale) const {
  check_defined("reduce", tensors);
  check_mean(reduction, tensors);
  check_types(reduction, tensors);
  if (size() > 1 && impl_->must_stage(tensors)) {
    return to_devices_of(reduce(to_cpu(tensors), reduction, scale), tensors);
  }
  Tensors results;
  for (const Tensor& tensor : tensors) {
    results.push_back(tensor.detach().clone(at::MemoryFormat::Contiguous));
  }
  if (size() > 1) {
    impl_->guarded("reduce", [&](const Call& call) {
      impl_->agree(call, results, std::string(name_of(reduction)));
      c10d::AllreduceOptions options;
      options.asyncOp = impl_->backend_wait->needs_async();
      for (const Tensor& result : results) {
        const GlooSubstitute substitute =
            result.is_cpu() && impl_->backend->getBackendName() == "gloo"
                ? gloo_substitute(result.scalar_type(), reduction)
                : GlooSubstitute{result.scalar_type(), reduction};
        options.reduceOp = op_of(substitute.reduction);
        Tensors input = {result.to(substitute.type)};
        impl_->run(input[0], call, [&](c10d::Backend& backend) {
          return backend.allreduce(input, options);
        });
        if (!input[0].is_same(result)) {
          result.copy_(input[0]);
        }
      }
    });
  }
  if (scale != 1.0) {
    for (Tensor& result : results) {
      result = result.mul(scale);
    }
  }
  return results;
}

void Group::broadcast(const Tensors& tensors, int from) const {
  check_defined("broadcast", tensors);
  check_from("broadcast", from, size());
  if (size() == 1) {
    return;
  }
  if (impl_->must_stage(tensors)) {
    const Tensors copies = to_cpu(tensors);
    broadcast(copies, from);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      tensors[i].detach().copy_(copies[i]);
    }
    return;
  }
  impl_->guarded("broadcast", [&](const Call& call) {
    impl_->agree(call, tensors, str_cat("from ", from));
    c10d::BroadcastOptions options;
    options.rootRank = from;
    options.asyncOp = impl_->backend_wait->needs_async();
    for (const Tensor& tensor : tensors) {
      Tensor flat = as_rows(tensor);
      if (flat.numel() == 0) {
        continue;
      }
      Tensors bytes = {as_bytes(flat)};
      impl_->run(bytes[0], call, [&](c10d::Backend& backend) {
        return backend.broadcast(bytes, options);
      });
      if (!flat.is_alias_of(tensor)) {
        tensor.detach().copy_(flat.view(tensor.sizes()));
      }
    }
  });
}

Group::Tensors Group::pad_across_processes(
    const Tensors& tensors, const PadOptions& options) const {
  check_defined("pad_across_processes", tensors);
  if (options.dim < 0) {
    throw ArgumentError(
        str_cat("pad_across_processes: dim is ", options.dim),
        "pass a dimension of 0 or more");
  }
  for (const Tensor& tensor : tensors) {
    check_pad_index(options.pad_index, tensor);
  }
  if (size() == 1) {
    return tensors;
  }
  return impl_->guarded("pad_across_processes", [&](const Call& call) {
    const auto records =
        impl_->agree(call, tensors, str_cat("dim ", options.dim), options.dim);
    Tensors results;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (options.dim >= tensors[i].dim()) {
        results.push_back(tensors[i]);
        continue;
      }
      std::int64_t most = 0;
      for (const CallRecord& record : records) {
        most = std::max(most, record.tensors[i].sizes[options.dim]);
      }
      results.push_back(padded_to(tensors[i], most, options));
    }
    return results;
  });
}

std::vector<Json> Group::gather_object(const std::vector<Json>& objects) const {
  if (size() == 1) {
    return objects;
  }
  return impl_->guarded("gather_object", [&](const Call& call) {
    impl_->agree(call, {});
    std::vector<Json> all;
    for (const std::string& text :
         impl_->exchange->all_gather(encode(objects), call, impl_->limits)) {
      auto received = decode(text);
      std::move(received.begin(), received.end(), std::back_inserter(all));
    }
    return all;
  });
}

void Group::broadcast_object_list(std::vector<Json>& objects, int from) const {
  check_from("broadcast_object_list", from, size());
  if (size() == 1) {
    return;
  }
  impl_->guarded("broadcast_object_list", [&](const Call& call) {
    impl_->agree(call, {}, str_cat("from ", from));
    const auto messages = impl_->exchange->all_gather(
        rank() == from ? encode(objects) : "", call, impl_->limits);
    if (rank() != from) {
      objects = decode(messages[static_cast<std::size_t>(from)]);
    }
  });
}

}  // namespace accelerate
