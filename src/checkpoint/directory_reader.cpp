// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/directory_reader.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include "accelerate/error.h"
#include "accelerate/safetensors.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "checkpoint/finite_json.h"
#include "checkpoint/parts.h"
#include "checkpoint/tensor_targets.h"
#include "checkpoint_directory/local_disk.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxDocument = std::size_t{256} << 20;
constexpr int kMaxProcesses = 1 << 20;
constexpr std::string_view kTensors = ".safetensors";
constexpr std::string_view kShapes = ".shapes.json";
constexpr std::string_view kIndex = ".safetensors.index.json";
constexpr std::string_view kRankPrefix = "rank-";

// Returns the key of a file, such as `optimizer_1` for
// `optimizer_1-00002-of-00004.safetensors`.
std::string stem_of(const std::string& file) {
  std::string stem = file.substr(0, file.size() - kTensors.size());
  const auto part = stem.find("-0");
  const auto of = stem.rfind("-of-");
  return part != stem.npos && of != stem.npos ? stem.substr(0, part) : stem;
}

Json read_json(const fs::path& path) {
  return Json::parse(read_file(path, kMaxDocument), {.source = path.string()});
}

// Copies the tensors, because the file may change after it is verified.
TensorMap read_copies(const fs::path& path) {
  TensorMap tensors = load_safetensors(path);
  for (auto& [name, tensor] : tensors) {
    tensor = tensor.clone();
  }
  return tensors;
}

void add_damages(
    std::vector<Damage>& damages,
    const std::vector<TensorFileToRead>& files,
    const std::vector<std::string>& problems) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!problems[i].empty()) {
      damages.push_back({files[i].path.filename().string(), problems[i]});
    }
  }
}

}  // namespace

std::set<std::string> large_files(const Manifest& manifest) {
  std::set<std::string> names;
  for (const auto& [name, sum] : manifest.files) {
    if (name.ends_with(kTensors) && !name.starts_with(kRankPrefix)) {
      names.insert(name);
    }
  }
  return names;
}

DirectoryReader::DirectoryReader(
    fs::path folder,
    const Manifest& manifest,
    const VerifyOptions& options,
    const ChooseRanges& choose)
    : folder_(std::move(folder)),
      manifest_(manifest),
      options_(options),
      choose_(choose),
      is_local_(is_on_local_disk(folder_)) {
  loaded_.step = manifest.step;
  loaded_.epoch = manifest.epoch;
  loaded_.iteration = manifest.iteration;
}

void DirectoryReader::read_small_files() {
  for (const auto& [name, sum] : manifest_.files) {
    if (!name.ends_with(kTensors) && !name.ends_with(kIndex) &&
        !name.ends_with(kShapes)) {
      loaded_.documents[name.substr(0, name.rfind('.'))] =
          with_infinities(read_json(folder_ / name));
    }
  }
  read_rank_files();
}

std::vector<Damage> DirectoryReader::read_tensors() {
  std::map<std::string, std::vector<std::string>> names;
  for (const std::string& name : large_files(manifest_)) {
    names[stem_of(name)].push_back(name);
  }
  for (const auto& [stem, parts] : names) {
    check_parts(stem, parts);
    std::vector<TensorFileToRead> files;
    for (const std::string& part : parts) {
      files.push_back(
          open_tensor_file(folder_ / part, manifest_.files.at(part)));
    }
    allocate(stem, std::move(files));
  }
  const int threads = at::get_num_threads();
  std::vector<Damage> damages = verify_requested_files();
  add_damages(
      damages,
      requested_files_,
      read_file_ranges(requested_files_, requested_reads_, threads));
  add_damages(damages, files_, read_tensor_files(files_, threads));
  return damages;
}

// Throws unless `parts` contains every file of a series such as
// `model-00001-of-00003.safetensors` to `model-00003-of-00003.safetensors`.
void DirectoryReader::check_parts(
    const std::string& stem, const std::vector<std::string>& parts) const {
  const auto count = static_cast<int>(parts.size());
  for (int part = 0; part < count; ++part) {
    if (parts[static_cast<std::size_t>(part)] !=
        tensor_file_name(stem, part, count)) {
      throw FormatError(str_cat(
          folder_.string(),
          " does not have all parts of `",
          stem,
          "`; it has only ",
          join(parts, ", ")));
    }
  }
}

void DirectoryReader::read_rank_files() {
  if (manifest_.world_size > kMaxProcesses) {
    throw FormatError(str_cat(
        folder_.string(),
        ": the manifest has an impossible `world_size`: ",
        manifest_.world_size));
  }
  for (int rank = 0; rank < manifest_.world_size; ++rank) {
    const std::string file = rank_file_name(rank);
    loaded_.rank_states.push_back(
        manifest_.files.contains(file) ? read_copies(folder_ / file)
                                       : TensorMap());
  }
  if (std::ranges::all_of(loaded_.rank_states, [](const TensorMap& rank_state) {
        return rank_state.empty();
      })) {
    throw FormatError(
        str_cat(folder_.string(), " has no `rank-*.safetensors` files"));
  }
}

bool DirectoryReader::has_ranges(const std::string& stem) const {
  return manifest_.files.contains(str_cat(stem, kShapes));
}

SavedTensors DirectoryReader::tensors_in(
    const std::string& stem,
    const std::span<const TensorFileToRead> files) const {
  return has_ranges(stem)
             ? ranged_tensors_in(
                   files, read_json(folder_ / str_cat(stem, kShapes)), folder_)
             : whole_tensors_in(files);
}

// Returns the ranges that this rank loads; empty if it loads all tensors of the
// key.
std::optional<std::vector<RangeRequest>> DirectoryReader::requests_for(
    const std::string& stem, const SavedTensors& tensors) const {
  if (!choose_) {
    return std::nullopt;
  }
  std::map<std::string, TensorType> types;
  for (const auto& [name, tensor] : tensors) {
    types[name] = {tensor.dtype, tensor.shape};
  }
  try {
    return choose_(stem, types);
  } catch (const std::exception& error) {
    throw ArgumentError(error.what());
  }
}

void DirectoryReader::allocate(
    const std::string& stem, std::vector<TensorFileToRead> files) {
  const SavedTensors tensors = tensors_in(stem, files);
  if (const auto requests = requests_for(stem, tensors)) {
    allocate_requests(stem, std::move(files), tensors, *requests);
    return;
  }
  if (has_ranges(stem)) {
    loaded_.ranges[stem] = allocate_ranges(files, tensors, is_local_);
  } else {
    loaded_.weights[stem] = allocate_weights(files, tensors, is_local_);
  }
  std::ranges::move(files, std::back_inserter(files_));
}

void DirectoryReader::allocate_requests(
    const std::string& stem,
    std::vector<TensorFileToRead> files,
    const SavedTensors& tensors,
    const std::vector<RangeRequest>& requests) {
  RequestedRanges requested =
      allocate_requested(files, tensors, requests, stem);
  loaded_.requested[stem] = std::move(requested.ranges);
  for (FileRange& read : requested.reads) {
    read.file += requested_files_.size();
    requested_reads_.push_back(read);
  }
  std::ranges::move(files, std::back_inserter(requested_files_));
}

// Compares the checksums of this rank's share of the files. The shares must not
// depend on the requests, because all ranks must divide the files in the same
// way.
std::vector<Damage> DirectoryReader::verify_requested_files() const {
  if (requested_files_.empty()) {
    return {};
  }
  VerifyOptions options = options_;
  for (const auto* files : {&manifest_.files, &manifest_.hook_files}) {
    for (const auto& [name, sum] : *files) {
      options.skip_checksums.insert(name);
    }
  }
  for (const TensorFileToRead& file : requested_files_) {
    options.skip_checksums.erase(file.path.filename().string());
  }
  return verify_checkpoint(folder_, manifest_, options);
}

}  // namespace accelerate
