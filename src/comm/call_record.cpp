// SPDX-License-Identifier: Apache-2.0
#include "comm/call_record.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "comm/wait_limits.h"

namespace accelerate {
namespace {

void put(std::string& out, std::int64_t value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put(std::string& out, const std::string& text) {
  put(out, static_cast<std::int64_t>(text.size()));
  out += text;
}

class Reader {
 public:
  explicit Reader(const std::string& text) : text_(text) {}

  std::int64_t number() {
    std::int64_t value = 0;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }

  std::string text() {
    const auto length = static_cast<std::size_t>(number());
    const char* begin = take(length);
    return {begin, length};
  }

 private:
  const char* take(std::size_t bytes) {
    if (bytes > text_.size() - at_) {
      throw InternalError(
          str_cat("a call record is truncated after ", text_.size(), " bytes"));
    }
    at_ += bytes;
    return text_.data() + at_ - bytes;
  }

  const std::string& text_;
  std::size_t at_ = 0;
};

std::string describe(const TensorRecord& tensor) {
  return str_cat(c10::toString(tensor.type), at::IntArrayRef(tensor.sizes));
}

// Returns a line "\n ranks 0, 1: …" for each distinct description.
std::string table_of(
    const std::vector<CallRecord>& records,
    const std::function<std::string(const CallRecord&)>& describe) {
  std::vector<std::pair<std::string, std::vector<int>>> rows;
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    const std::string text = describe(records[rank]);
    auto row = std::find_if(rows.begin(), rows.end(), [&](const auto& known) {
      return known.first == text;
    });
    if (row == rows.end()) {
      row = rows.insert(rows.end(), {text, {}});
    }
    row->second.push_back(static_cast<int>(rank));
  }
  std::string table;
  for (const auto& [description, ranks] : rows) {
    table += str_cat("\n  ", name_ranks(ranks), ": ", description);
  }
  return table;
}

bool all_equal(
    const std::vector<CallRecord>& records,
    const std::function<bool(const CallRecord&, const CallRecord&)>& equal) {
  return std::all_of(
      records.begin(), records.end(), [&](const CallRecord& other) {
        return equal(other, records.front());
      });
}

void check_same_call(const std::vector<CallRecord>& records) {
  const bool same =
      all_equal(records, [](const CallRecord& a, const CallRecord& b) {
        return a.operation == b.operation && a.sequence == b.sequence &&
               a.arguments == b.arguments &&
               a.tensors.size() == b.tensors.size();
      });
  if (!same) {
    throw MismatchError(
        str_cat(
            "the ranks are in different collective calls",
            table_of(
                records,
                [](const CallRecord& record) { return record.describe(); })),
        "make the same calls in the same order on every rank; do not call a "
        "collective inside `if (is_main_process())`");
  }
}

// Returns the first dimension whose size differs, or -1 if the number of
// dimensions differs.
std::int64_t differing_dimension(
    const std::vector<CallRecord>& records,
    std::size_t index,
    std::optional<std::int64_t> free_dim) {
  const auto& first = records.front().tensors[index].sizes;
  for (const CallRecord& record : records) {
    const auto& sizes = record.tensors[index].sizes;
    if (sizes.size() != first.size()) {
      return -1;
    }
    for (std::size_t dim = 0; dim < sizes.size(); ++dim) {
      const auto signed_dim = static_cast<std::int64_t>(dim);
      if (sizes[dim] != first[dim] && signed_dim != free_dim) {
        return signed_dim;
      }
    }
  }
  throw InternalError("the shapes do not differ");
}

bool same_shape(
    const TensorRecord& a,
    const TensorRecord& b,
    std::optional<std::int64_t> free_dim) {
  if (a.sizes.size() != b.sizes.size()) {
    return false;
  }
  for (std::size_t dim = 0; dim < a.sizes.size(); ++dim) {
    if (a.sizes[dim] != b.sizes[dim] &&
        static_cast<std::int64_t>(dim) != free_dim) {
      return false;
    }
  }
  return true;
}

void check_tensor(
    const std::vector<CallRecord>& records,
    std::size_t index,
    std::optional<std::int64_t> free_dim) {
  const auto tensor = [&](const CallRecord& record) -> const TensorRecord& {
    return record.tensors[index];
  };
  const auto show = [&](const CallRecord& record) {
    return describe(tensor(record));
  };
  const CallRecord& first = records.front();
  std::string which = str_cat(first.operation, " #", first.sequence);
  if (first.tensors.size() > 1) {
    which += str_cat(", tensor ", index + 1, " of ", first.tensors.size());
  }
  if (!all_equal(records, [&](const CallRecord& a, const CallRecord& b) {
        return tensor(a).type == tensor(b).type;
      })) {
    throw MismatchError(
        str_cat(
            which,
            ": the ranks' tensors differ in type",
            table_of(records, show)),
        "convert the tensors to one type first");
  }
  if (!all_equal(records, [&](const CallRecord& a, const CallRecord& b) {
        return same_shape(tensor(a), tensor(b), free_dim);
      })) {
    const auto dim = differing_dimension(records, index, free_dim);
    throw MismatchError(
        str_cat(
            which,
            ": the ranks' tensors differ in ",
            dim < 0 ? std::string("their number of dimensions")
                    : str_cat("dimension ", dim),
            table_of(records, show)),
        dim < 0
            ? "pass tensors with the same number of dimensions"
            : str_cat(
                  "use `pad_across_processes` with `.dim = ", dim, "` first"));
  }
}

}  // namespace

std::string CallRecord::encode() const {
  std::string out;
  put(out, operation);
  put(out, static_cast<std::int64_t>(sequence));
  put(out, arguments);
  put(out, static_cast<std::int64_t>(tensors.size()));
  for (const TensorRecord& tensor : tensors) {
    put(out, static_cast<std::int64_t>(tensor.type));
    put(out, static_cast<std::int64_t>(tensor.sizes.size()));
    for (const std::int64_t size : tensor.sizes) {
      put(out, size);
    }
  }
  put(out, payload);
  return out;
}

CallRecord CallRecord::decode(const std::string& text) {
  Reader in(text);
  CallRecord record;
  record.operation = in.text();
  record.sequence = static_cast<std::uint64_t>(in.number());
  record.arguments = in.text();
  for (std::int64_t left = in.number(); left > 0; --left) {
    TensorRecord tensor{static_cast<at::ScalarType>(in.number()), {}};
    for (std::int64_t dims = in.number(); dims > 0; --dims) {
      tensor.sizes.push_back(in.number());
    }
    record.tensors.push_back(std::move(tensor));
  }
  record.payload = in.text();
  return record;
}

std::string CallRecord::describe() const {
  std::string text = str_cat(operation, " #", sequence);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    text += str_cat(i == 0 ? " of " : ", ", accelerate::describe(tensors[i]));
  }
  return arguments.empty() ? text : str_cat(text, " (", arguments, ")");
}

void check_agreement(
    const std::vector<CallRecord>& records,
    std::optional<std::int64_t> free_dim) {
  check_same_call(records);
  for (std::size_t i = 0; i < records.front().tensors.size(); ++i) {
    check_tensor(records, i, free_dim);
  }
}

}  // namespace accelerate
