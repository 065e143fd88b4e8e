// SPDX-License-Identifier: Apache-2.0
#include "accelerate/safetensors.h"

#include <algorithm>
#include <unordered_map>

#include <ATen/core/Tensor.h>

#include "accelerate/error.h"
#include "base/atomic_file.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "base/safetensors_header.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "tensor_io/safetensors_dtype.h"
#include "tensor_io/safetensors_view.h"
#include "tensor_io/safetensors_writer.h"

namespace accelerate {
namespace {

// The alignment of LibTorch's own tensors. The first tensor starts at a
// multiple of this number; later tensors may not. Aligned tensors can be used
// directly in the mapped file.
constexpr std::size_t kHeaderAlignment = 64;
constexpr std::size_t kLengthBytes = 8;

// A tensor to be written: contiguous and in host memory.
struct Piece {
  std::string name;
  std::string_view dtype;
  at::Tensor tensor;
};

Piece piece_of(const std::string& name, const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.layout() != c10::kStrided) {
    throw ArgumentError(str_cat(
        "tensor `",
        name,
        "` is ",
        tensor.defined() ? "sparse" : "undefined",
        ", but a safetensors file holds only dense tensors"));
  }
  const auto dtype = safetensors_name(tensor.scalar_type());
  if (!dtype) {
    throw ArgumentError(
        str_cat(
            "tensor `",
            name,
            "` is of type ",
            tensor.scalar_type(),
            ", which the safetensors format does not support"),
        "convert the tensor to a supported type first");
  }
  return {name, *dtype, tensor.detach().cpu().contiguous()};
}

bool is_same_memory(const at::Tensor& left, const at::Tensor& right) {
  return left.scalar_type() == right.scalar_type() &&
         left.sizes() == right.sizes() && left.strides() == right.strides();
}

// Returns each tensor once. If a tensor shares its memory with an earlier
// tensor, only its name is stored, in the metadata.
std::vector<Piece> unique_pieces(
    const TensorMap& tensors, std::map<std::string, std::string>& metadata) {
  std::vector<Piece> pieces;
  std::unordered_map<const void*, std::pair<std::string, at::Tensor>> seen;
  for (const auto& [name, tensor] : tensors) {
    if (name == "__metadata__") {
      throw ArgumentError("a tensor cannot be named `__metadata__`");
    }
    if (tensor.defined() && tensor.layout() == c10::kStrided &&
        tensor.numel() > 0) {
      const auto [at, inserted] =
          seen.try_emplace(tensor.const_data_ptr(), name, tensor);
      if (!inserted && is_same_memory(at->second.second, tensor)) {
        metadata[name] = at->second.first;
        continue;
      }
    }
    pieces.push_back(piece_of(name, tensor));
  }
  // Writing larger elements first keeps every tensor aligned to its elements.
  std::ranges::stable_sort(pieces, [](const Piece& left, const Piece& right) {
    return left.tensor.element_size() > right.tensor.element_size();
  });
  return pieces;
}

std::string header_text(
    const std::vector<Piece>& pieces,
    const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) {
    Json& member = header["__metadata__"];
    for (const auto& [key, value] : metadata) {
      member[key] = value;
    }
  }
  std::int64_t reached = 0;
  for (const Piece& piece : pieces) {
    std::vector<std::int64_t> shape = piece.tensor.sizes().vec();
    if (piece.dtype == "F4" && !shape.empty()) {
      shape.back() *= 2;
    }
    const std::int64_t end =
        reached + static_cast<std::int64_t>(piece.tensor.nbytes());
    header[piece.name] = Json::object(
        {{"dtype", piece.dtype},
         {"shape", shape},
         {"data_offsets", Json::array({reached, end})}});
    reached = end;
  }
  std::string text = header.dump();
  const std::size_t front = kLengthBytes + text.size();
  text.append(
      (kHeaderAlignment - front % kHeaderAlignment) % kHeaderAlignment, ' ');
  return text;
}

std::string little_endian(std::uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) {
    bytes.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  }
  return bytes;
}

}  // namespace

class SafetensorsFile::Impl {
 public:
  explicit Impl(const std::filesystem::path& path)
      : path_(path.string()), file_(std::make_shared<MappedFile>(path)) {
    const std::string_view text = file_->text();
    const auto length =
        safetensors_header_length(text.substr(0, 64), text.size(), path_);
    header_ =
        parse_safetensors_header(text.substr(8, length), text.size(), path_);
    for (std::size_t i = 0; i < header_.tensors.size(); ++i) {
      index_[header_.tensors[i].name] = i;
    }
  }

  const SafetensorsHeader& header() const { return header_; }
  bool contains(std::string_view name) const { return index_.contains(name); }

  at::Tensor tensor(std::string_view name) const {
    const auto found = index_.find(name);
    if (found == index_.end()) {
      throw ArgumentError(
          str_cat(path_, " has no tensor `", printable(name), "`"));
    }
    const SafetensorsEntry& entry = header_.tensors[found->second];
    return view_of(entry, file_->data() + entry.begin, file_, path_);
  }

 private:
  std::string path_;
  std::shared_ptr<MappedFile> file_;
  SafetensorsHeader header_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : impl_(std::make_unique<Impl>(path)) {
}
SafetensorsFile::~SafetensorsFile() = default;
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept =
    default;

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const SafetensorsEntry& entry : impl_->header().tensors) {
    names.push_back(entry.name);
  }
  return names;
}

bool SafetensorsFile::contains(std::string_view name) const {
  return impl_->contains(name);
}

const std::map<std::string, std::string>& SafetensorsFile::metadata() const {
  return impl_->header().metadata;
}

at::Tensor SafetensorsFile::tensor(std::string_view name) const {
  return impl_->tensor(name);
}

TensorMap load_safetensors(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  TensorMap tensors;
  for (const std::string& name : file.names()) {
    tensors.emplace(name, file.tensor(name));
  }
  for (const auto& [alias, name] : file.metadata()) {
    if (const auto found = tensors.find(name); found != tensors.end()) {
      tensors.try_emplace(alias, found->second);
    }
  }
  return tensors;
}

void write_safetensors(
    const TensorMap& tensors,
    std::map<std::string, std::string> metadata,
    const std::function<void(std::string_view)>& write) {
  const std::vector<Piece> pieces = unique_pieces(tensors, metadata);
  const std::string header = header_text(pieces, metadata);
  write(little_endian(header.size()));
  write(header);
  for (const Piece& piece : pieces) {
    write(
        {static_cast<const char*>(piece.tensor.const_data_ptr()),
         piece.tensor.nbytes()});
  }
}

void save_safetensors(
    const TensorMap& tensors,
    const std::filesystem::path& path,
    const SaveSafetensorsOptions& options) {
  AtomicFile file(path);
  write_safetensors(tensors, options.metadata, [&](std::string_view bytes) {
    file.write(bytes);
  });
  file.commit();
}

}  // namespace accelerate
