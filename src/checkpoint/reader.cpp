// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/reader.h"

#include <algorithm>
#include <charconv>
#include <set>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "accelerate/error.h"
#include "accelerate/safetensors.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "checkpoint/parts.h"
#include "tensor_io/safetensors_dtype.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxDocument = std::size_t{256} << 20;
constexpr int kMaxProcesses = 1 << 20;
constexpr std::string_view kTensors = ".safetensors";
constexpr std::string_view kShapes = ".shapes.json";
constexpr std::string_view kIndex = ".safetensors.index.json";

// `optimizer_1` for `optimizer_1-00002-of-00004.safetensors`.
std::string stem_of(const std::string& file) {
  std::string stem = file.substr(0, file.size() - kTensors.size());
  const auto part = stem.find("-0");
  const auto of = stem.rfind("-of-");
  return part != stem.npos && of != stem.npos ? stem.substr(0, part) : stem;
}

Json read_json(const fs::path& path) {
  return Json::parse(read_file(path, kMaxDocument), {.source = path.string()});
}

/// One range of a flat tensor.
struct Range {
  std::int64_t offset = 0;
  at::Tensor elements;
};

// Splits `head.weight.exp_avg@4096`.
std::pair<std::string, std::int64_t> split_range_name(
    const std::string& name, const fs::path& file) {
  const auto at = name.rfind('@');
  std::int64_t offset = -1;
  if (at != name.npos) {
    const char* begin = name.data() + at + 1;
    const char* end = name.data() + name.size();
    const auto [reached, error] = std::from_chars(begin, end, offset);
    if (error != std::errc() || reached != end) {
      offset = -1;
    }
  }
  if (offset < 0) {
    throw FormatError(
        str_cat(file.string(), ": `", name, "` does not say where it begins"));
  }
  return {name.substr(0, at), offset};
}

[[noreturn]] void throw_gap(
    const std::string& name,
    const std::int64_t reached,
    const fs::path& folder) {
  throw FormatError(str_cat(
      folder.string(),
      ": the ranges of `",
      name,
      "` do not meet at element ",
      reached));
}

// Whole when there is one range of all elements, else put together.
at::Tensor join(
    const std::string& name,
    std::vector<Range> ranges,
    const Json& form,
    const fs::path& folder) {
  std::vector<std::int64_t> shape;
  std::int64_t elements = 1;
  for (const Json& size : form.at("shape").as_array()) {
    shape.push_back(size.as_integer());
    elements *= size.as_integer();
  }
  std::ranges::sort(ranges, {}, &Range::offset);
  if (ranges.size() == 1 && ranges[0].offset == 0 &&
      ranges[0].elements.numel() == elements) {
    return ranges[0].elements.view(shape);
  }
  const auto type = dtype_from_safetensors(form.at("dtype").as_string());
  if (!type) {
    throw FormatError(
        str_cat(folder.string(), ": `", name, "` has no type LibTorch knows"));
  }
  const at::Tensor whole = at::empty({elements}, at::TensorOptions(*type));
  std::int64_t reached = 0;
  for (const auto& [offset, piece] : ranges) {
    if (offset != reached || piece.scalar_type() != *type ||
        offset + piece.numel() > elements) {
      throw_gap(name, reached, folder);
    }
    whole.slice(0, offset, offset + piece.numel()).copy_(piece);
    reached += piece.numel();
  }
  if (reached != elements) {
    throw_gap(name, reached, folder);
  }
  return whole.view(shape);
}

TensorMap read_ranges(
    const fs::path& folder,
    const std::vector<std::string>& files,
    const Json& shapes) {
  std::map<std::string, std::vector<Range>> ranges;
  for (const std::string& file : files) {
    const SafetensorsFile opened(folder / file);
    for (const std::string& name : opened.names()) {
      const auto [tensor, offset] = split_range_name(name, folder / file);
      ranges[tensor].push_back({offset, opened.tensor(name)});
    }
  }
  TensorMap tensors;
  for (const auto& [name, form] : shapes.as_object()) {
    tensors.emplace(name, join(name, ranges[name], form, folder));
  }
  return tensors;
}

std::vector<Json> found_by(
    const fs::path& folder, const Group& group, const bool share) {
  Json found = Json::array();
  try {
    const Manifest manifest = read_manifest(folder);
    const VerifyOptions mine{
        .checksums = true,
        .reader = share ? group.rank() : 0,
        .readers = share ? group.size() : 1,
        .threads = at::get_num_threads()};
    for (const auto& [file, what] : verify_checkpoint(folder, manifest, mine)) {
      found.push_back(str_cat(file, " ", what));
    }
  } catch (const Error& error) {
    found.push_back(error.what());
  }
  return group.gather_object({found});
}

}  // namespace

void verify_together(
    const fs::path& folder, const Group& group, const bool share) {
  std::set<std::string> damages;
  for (const Json& found : found_by(folder, group, share)) {
    for (const Json& damage : found.as_array()) {
      damages.insert(damage.as_string());
    }
  }
  if (damages.empty()) {
    return;
  }
  if (!fs::exists(folder / kManifestFile)) {
    throw IoError(
        str_cat(
            "there is no complete checkpoint at ",
            folder.string(),
            ": it has no ",
            kManifestFile),
        "`accelerate checkpoint list` shows which there are");
  }
  std::string list;
  for (const std::string& damage : damages) {
    list += str_cat("\n  ", damage);
  }
  throw FormatError(
      str_cat("the checkpoint ", folder.string(), " is damaged", list),
      "load another one; `accelerate checkpoint list` shows which are whole");
}

LoadedCheckpoint open_checkpoint(const fs::path& folder) {
  const Manifest manifest = read_manifest(folder);
  LoadedCheckpoint loaded;
  loaded.step = manifest.step;
  loaded.epoch = manifest.epoch;
  loaded.iteration = manifest.iteration;
  std::map<std::string, std::vector<std::string>> files;
  for (const auto& [name, sum] : manifest.files) {
    if (name.ends_with(kTensors)) {
      files[stem_of(name)].push_back(name);
    } else if (!name.ends_with(kIndex) && !name.ends_with(kShapes)) {
      loaded.documents[name.substr(0, name.rfind('.'))] =
          read_json(folder / name);
    }
  }
  if (manifest.world_size > kMaxProcesses) {
    throw FormatError(str_cat(
        folder.string(), ": saved by ", manifest.world_size, " processes"));
  }
  for (int rank = 0; rank < manifest.world_size; ++rank) {
    const std::string own = own_file_name(rank);
    loaded.own.push_back(
        manifest.files.contains(own) ? load_safetensors(folder / own)
                                     : TensorMap());
    files.erase(own.substr(0, own.size() - kTensors.size()));
  }
  if (std::ranges::all_of(
          loaded.own, [](const TensorMap& own) { return own.empty(); })) {
    throw FormatError(str_cat(folder.string(), " has no file of any process"));
  }
  for (const auto& [stem, parts] : files) {
    const std::string shapes = str_cat(stem, kShapes);
    if (manifest.files.contains(shapes)) {
      loaded.ranges[stem] =
          read_ranges(folder, parts, read_json(folder / shapes));
      continue;
    }
    TensorMap& weights = loaded.weights[stem];
    for (const std::string& part : parts) {
      weights.merge(load_safetensors(folder / part));
    }
  }
  return loaded;
}

}  // namespace accelerate
