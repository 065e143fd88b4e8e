// SPDX-License-Identifier: Apache-2.0
// The collectives of a group on tensors and objects.
#include <algorithm>
#include <utility>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "accelerate/group.h"
#include "base/str_cat.h"
#include "comm/group_impl.h"

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

// Returns the tensor detached from autograd, contiguous, and with at least one
// dimension. A lazy conjugate or negative is only a flag, which the bytes lack,
// so the values of such a tensor are computed first.
Tensor as_rows(const Tensor& tensor) {
  const Tensor plain =
      tensor.detach().resolve_conj().resolve_neg().contiguous();
  return plain.dim() == 0 ? plain.view({1}) : plain;
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

// Gives the same result on every rank, including ranks that need no padding.
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
        "pass a value that this type can represent, or convert the tensor "
        "first");
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

std::string name_all_ranks(int size) {
  return size == 1 ? "rank 0" : str_cat("ranks 0 to ", size - 1);
}

void check_from(const char* operation, int from, int size) {
  if (from < 0 || from >= size) {
    throw ArgumentError(
        str_cat(
            operation,
            ": `from` is ",
            from,
            ", but this group has only ",
            name_all_ranks(size)),
        "pass a rank in this group");
  }
}

Tensor as_bytes(const Tensor& contiguous) {
  return contiguous.view({-1}).view(at::kByte);
}

Group::Tensors Group::gather(const Tensors& tensors) const {
  check_defined("gather", tensors);
  Tensors rows;
  for (const Tensor& tensor : tensors) {
    rows.push_back(as_rows(tensor));
  }
  if (size() == 1) {
    return rows;
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
  const Tensor all = at::empty(sizes, rows.options());
  finish(start_all_gather(all, with_rows(rows, most), call, /*overlap=*/false));
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
  Tensors results;
  for (const Tensor& tensor : tensors) {
    check_reduction(reduction, tensor);
    results.push_back(tensor.detach().clone(at::MemoryFormat::Contiguous));
  }
  if (size() > 1) {
    impl_->guarded("reduce", [&](const Call& call) {
      impl_->agree(call, results, std::string(name_of(reduction)));
      for (const Tensor& result : results) {
        impl_->finish(impl_->start_all_reduce(
            result, reduction, call, /*overlap=*/false));
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
  impl_->guarded("broadcast", [&](const Call& call) {
    impl_->agree(call, tensors, str_cat("from ", from));
    for (const Tensor& tensor : tensors) {
      const Tensor flat = as_rows(tensor);
      impl_->finish(
          impl_->start_broadcast(flat, from, call, /*overlap=*/false));
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
    std::vector<Json> all;
    for (const CallRecord& record :
         impl_->agree_on_objects(call, {}, encode(objects))) {
      auto received = decode(record.payload);
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
    const auto records = impl_->agree_on_objects(
        call, str_cat("from ", from), rank() == from ? encode(objects) : "");
    if (rank() != from) {
      objects = decode(records[static_cast<std::size_t>(from)].payload);
    }
  });
}

}  // namespace accelerate
