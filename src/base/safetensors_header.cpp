// SPDX-License-Identifier: Apache-2.0
#include "base/safetensors_header.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <limits>
#include <tuple>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "base/utf8.h"

namespace accelerate {
namespace {

constexpr std::uint64_t kLengthBytes = 8;
// LibTorch's limit. Shapes are the longest arrays in a valid header.
constexpr std::size_t kMaxDimensions = 64;
constexpr std::string_view kLfsPointer = "version https://git-lfs";

struct Dtype {
  std::string_view name;
  int bits;
};
constexpr Dtype kDtypes[] = {
    {"BOOL", 8},    {"U8", 8},      {"I8", 8},          {"I16", 16},
    {"U16", 16},    {"F16", 16},    {"BF16", 16},       {"I32", 32},
    {"U32", 32},    {"F32", 32},    {"C64", 64},        {"F64", 64},
    {"I64", 64},    {"U64", 64},    {"F8_E4M3", 8},     {"F8_E5M2", 8},
    {"F8_E8M0", 8}, {"F4", 4},      {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8},
    {"F6_E2M3", 6}, {"F6_E3M2", 6},
};

std::string known_dtypes() {
  std::vector<std::string> names;
  for (const Dtype& dtype : kDtypes) {
    names.emplace_back(dtype.name);
  }
  return join(names, ", ");
}

[[noreturn]] void fail(
    const std::string& path,
    std::uint64_t byte,
    const std::string& problem,
    const std::string& hint = {}) {
  throw FormatError(str_cat(path, ": byte ", byte, ": ", problem), hint);
}

// Turns the JSON into entries; errors name the byte offset of the entry.
class Reader {
 public:
  Reader(
      std::string_view json, std::uint64_t file_size, const std::string& path)
      : json_(json), file_size_(file_size), path_(path) {}

  SafetensorsHeader read() {
    check_text();
    const Json root = Json::parse(
        json_,
        {.source = path_,
         .max_array = kMaxDimensions,
         .byte_offset = kLengthBytes});
    for (const auto& [name, value] : root.as_object()) {
      if (name == "__metadata__") {
        read_metadata(value);
      } else {
        header_.tensors.push_back(read_entry(name, value));
      }
    }
    check_tiling();
    return std::move(header_);
  }

 private:
  std::uint64_t data_begin() const { return kLengthBytes + json_.size(); }

  // Returns the offset of a name in the file, or the start of the header if the
  // name contains escape sequences.
  std::uint64_t offset_of(const std::string& name) const {
    const auto found = json_.find(Json(name).dump());
    return kLengthBytes + (found == std::string_view::npos ? 0 : found);
  }
  [[noreturn]] void fail_at(
      const std::string& name,
      const std::string& problem,
      const std::string& hint = {}) const {
    fail(
        path_,
        offset_of(name),
        str_cat("`", printable(name), "`: ", problem),
        hint);
  }

  void check_text() const {
    const auto wrong = find_invalid_utf8(json_);
    if (wrong != std::string_view::npos) {
      fail(path_, kLengthBytes + wrong, "the header is not UTF-8");
    }
    if (!json_.starts_with('{')) {
      fail(path_, kLengthBytes, "the header is not a JSON object");
    }
  }

  void read_metadata(const Json& value) {
    if (!value.is_object()) {
      fail_at("__metadata__", "expected an object");
    }
    for (const auto& [key, text] : value.as_object()) {
      if (!text.is_string()) {
        fail_at(
            "__metadata__", str_cat("`", printable(key), "` is not a string"));
      }
      header_.metadata[key] = text.as_string();
    }
  }

  // Returns `value`, an element of the list `key`, as a non-negative integer.
  std::uint64_t count(
      const std::string& name, const char* key, const Json& value) const {
    if (!value.is_integer() || value.as_integer() < 0) {
      fail_at(
          name,
          str_cat(
              "`",
              key,
              "` contains ",
              value.dump({.allow_nan = true}),
              ", which is not a whole number from 0 to ",
              std::numeric_limits<std::int64_t>::max()));
    }
    return static_cast<std::uint64_t>(value.as_integer());
  }

  const Json& member(
      const std::string& name, const Json& value, const char* key) const {
    const Json* found = value.find(key);
    if (found == nullptr) {
      fail_at(name, str_cat("`", key, "` is missing"));
    }
    return *found;
  }

  const Json::Array& list(
      const std::string& name, const Json& value, const char* key) const {
    const Json& found = member(name, value, key);
    if (!found.is_array()) {
      fail_at(name, str_cat("`", key, "` is not a list"));
    }
    return found.as_array();
  }

  SafetensorsEntry read_entry(
      const std::string& name, const Json& value) const {
    if (!value.is_object() || value.size() != 3) {
      fail_at(
          name,
          "expected an object with only `dtype`, `shape` and `data_offsets`");
    }
    SafetensorsEntry entry;
    entry.name = name;
    const Json& dtype = member(name, value, "dtype");
    if (!dtype.is_string() || !safetensors_bits(dtype.as_string())) {
      fail_at(
          name,
          str_cat("unknown dtype ", printable(dtype.dump({.allow_nan = true}))),
          str_cat("use one of ", known_dtypes()));
    }
    entry.dtype = dtype.as_string();
    for (const Json& extent : list(name, value, "shape")) {
      entry.shape.push_back(
          static_cast<std::int64_t>(count(name, "shape", extent)));
    }
    const Json::Array& offsets = list(name, value, "data_offsets");
    if (offsets.size() != 2) {
      fail_at(name, "`data_offsets` is not a pair");
    }
    set_range(
        entry,
        count(name, "data_offsets", offsets[0]),
        count(name, "data_offsets", offsets[1]));
    return entry;
  }

  void set_range(
      SafetensorsEntry& entry, std::uint64_t begin, std::uint64_t end) const {
    if (begin > end || end > file_size_ - data_begin()) {
      fail_at(
          entry.name,
          str_cat(
              "`data_offsets` are ",
              begin,
              " and ",
              end,
              begin > end
                  ? ", but the first must not be greater than the second"
                  : str_cat(
                        ", but the file has only ",
                        file_size_ - data_begin(),
                        " bytes of data")));
    }
    const std::optional<std::uint64_t> bytes = byte_count(entry);
    if (bytes != end - begin) {
      fail_at(
          entry.name,
          str_cat(
              bytes ? str_cat("the shape needs ", *bytes, " bytes, but")
                    : "the shape's size in bytes overflows or is not a whole "
                      "number;",
              " `data_offsets` span ",
              end - begin));
    }
    entry.begin = data_begin() + begin;
    entry.end = data_begin() + end;
  }

  // Returns nothing when the size overflows or is not a whole number of bytes.
  // Skips extents of 0 in the product, so that an overflow is found regardless
  // of the order of the extents.
  static std::optional<std::uint64_t> byte_count(
      const SafetensorsEntry& entry) {
    std::int64_t bits = *safetensors_bits(entry.dtype);
    bool empty = false;
    for (const std::int64_t extent : entry.shape) {
      empty = empty || extent == 0;
      if (extent != 0 && __builtin_mul_overflow(bits, extent, &bits)) {
        return std::nullopt;
      }
    }
    if (empty) {
      return 0;
    }
    return bits % 8 == 0 ? std::optional(static_cast<std::uint64_t>(bits / 8))
                         : std::nullopt;
  }

  void check_tiling() {
    std::ranges::sort(header_.tensors, [](const auto& left, const auto& right) {
      return std::tie(left.begin, left.end) < std::tie(right.begin, right.end);
    });
    std::uint64_t reached = data_begin();
    std::string previous = "the header";
    for (const SafetensorsEntry& entry : header_.tensors) {
      const std::string name = str_cat("`", printable(entry.name), "`");
      if (entry.begin > reached) {
        fail(
            path_,
            reached,
            str_cat(
                entry.begin - reached,
                " bytes between ",
                previous,
                " and ",
                name,
                " do not belong to any tensor"));
      }
      if (entry.begin < reached) {
        fail(path_, entry.begin, str_cat(name, " overlaps ", previous));
      }
      reached = entry.end;
      previous = name;
    }
    if (reached < file_size_) {
      fail(
          path_,
          reached,
          str_cat(
              file_size_ - reached,
              " bytes after ",
              previous,
              " do not belong to any tensor"));
    }
  }

  std::string_view json_;
  std::uint64_t file_size_;
  const std::string& path_;
  SafetensorsHeader header_;
};

}  // namespace

std::int64_t SafetensorsEntry::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    count *= extent;
  }
  return count;
}

std::optional<int> safetensors_bits(std::string_view dtype) {
  const auto* found = std::ranges::find(kDtypes, dtype, &Dtype::name);
  return found == std::end(kDtypes) ? std::nullopt : std::optional(found->bits);
}

std::uint64_t safetensors_header_length(
    std::string_view start, std::uint64_t file_size, const std::string& path) {
  if (file_size < kLengthBytes || start.size() < kLengthBytes) {
    fail(path, file_size, "the file ends before its header");
  }
  if (start.starts_with(kLfsPointer.substr(0, kLengthBytes)) ||
      start.starts_with(kLfsPointer)) {
    fail(
        path,
        0,
        "this is a Git LFS pointer, not the file itself",
        "run `git lfs pull` in the folder of the file");
  }
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i) {
    length = length << 8 |
             static_cast<unsigned char>(start[static_cast<std::size_t>(i)]);
  }
  if (length > kMaxSafetensorsHeader) {
    fail(
        path,
        0,
        str_cat(
            "the header length is ",
            length,
            " bytes, more than the ",
            kMaxSafetensorsHeader,
            " allowed"));
  }
  if (length > file_size - kLengthBytes) {
    fail(
        path,
        0,
        str_cat(
            "the header length is ",
            length,
            " bytes, but only ",
            file_size - kLengthBytes,
            " bytes follow"),
        "the download may be incomplete; fetch the file again");
  }
  return length;
}

SafetensorsHeader parse_safetensors_header(
    std::string_view json, std::uint64_t file_size, const std::string& path) {
  return Reader(json, file_size, path).read();
}

SafetensorsHeader read_safetensors_header(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error || !file) {
    throw_errno("read", path, error ? error.value() : EACCES);
  }
  std::string start(kLengthBytes, '\0');
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<std::size_t>(file.gcount()));
  std::string json(safetensors_header_length(start, size, path.string()), '\0');
  file.read(json.data(), static_cast<std::streamsize>(json.size()));
  if (!file) {
    throw_errno("read", path, EIO);
  }
  return parse_safetensors_header(json, size, path.string());
}

}  // namespace accelerate
