// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/reader.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include "accelerate/error.h"
#include "accelerate/safetensors.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "checkpoint/parts.h"
#include "checkpoint/tensor_files.h"
#include "checkpoint/tensor_places.h"
#include "folders/local_disk.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxDocument = std::size_t{256} << 20;
constexpr int kMaxProcesses = 1 << 20;
constexpr std::string_view kTensors = ".safetensors";
constexpr std::string_view kShapes = ".shapes.json";
constexpr std::string_view kIndex = ".safetensors.index.json";
constexpr std::string_view kOwn = "rank-";

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

// Files of weights and of ranges, which every rank reads whole.
bool is_shared_tensors(const std::string& file) {
  return file.ends_with(kTensors) && !file.starts_with(kOwn);
}

std::set<std::string> shared_tensors(const Manifest& manifest) {
  std::set<std::string> names;
  for (const auto& [name, sum] : manifest.files) {
    if (is_shared_tensors(name)) {
      names.insert(name);
    }
  }
  return names;
}

/// Reads one checkpoint.
class Reader {
 public:
  Reader(fs::path folder, const Manifest& manifest)
      : folder_(std::move(folder)), manifest_(manifest) {
    loaded_.step = manifest.step;
    loaded_.epoch = manifest.epoch;
    loaded_.iteration = manifest.iteration;
  }

  /// What was verified before.
  void read_small_files() {
    for (const auto& [name, sum] : manifest_.files) {
      if (!name.ends_with(kTensors) && !name.ends_with(kIndex) &&
          !name.ends_with(kShapes)) {
        loaded_.documents[name.substr(0, name.rfind('.'))] =
            read_json(folder_ / name);
      }
    }
    read_own_files();
  }

  /// The rest; returns what is wrong with it.
  std::vector<Damage> read_tensors() {
    std::map<std::string, std::vector<std::string>> names;
    for (const std::string& name : shared_tensors(manifest_)) {
      names[stem_of(name)].push_back(name);
    }
    // Spans into it must stay where they are.
    std::vector<TensorFileToRead> files;
    files.reserve(manifest_.files.size());
    for (const auto& [stem, parts] : names) {
      const std::size_t first = files.size();
      for (const std::string& part : parts) {
        files.push_back(open_tensor_file(
            folder_ / part, manifest_.files.at(part), access_to(stem)));
      }
      place(stem, std::span(files).subspan(first));
    }
    std::vector<Damage> damages;
    const auto problems = read_tensor_files(files, at::get_num_threads());
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (!problems[i].empty()) {
        damages.push_back({files[i].path.filename().string(), problems[i]});
      }
    }
    return damages;
  }

  LoadedCheckpoint take() { return std::move(loaded_); }

 private:
  void read_own_files() {
    if (manifest_.world_size > kMaxProcesses) {
      throw FormatError(str_cat(
          folder_.string(), ": saved by ", manifest_.world_size, " processes"));
    }
    for (int rank = 0; rank < manifest_.world_size; ++rank) {
      const std::string own = own_file_name(rank);
      loaded_.own.push_back(
          manifest_.files.contains(own) ? load_safetensors(folder_ / own)
                                        : TensorMap());
    }
    if (std::ranges::all_of(
            loaded_.own, [](const TensorMap& own) { return own.empty(); })) {
      throw FormatError(
          str_cat(folder_.string(), " has no file of any process"));
    }
  }

  // Weights are copied into those of the run; ranges become its own.
  FileAccess access_to(const std::string& stem) const {
    const bool ranges = manifest_.files.contains(str_cat(stem, kShapes));
    return is_local_ && !ranges ? FileAccess::map : FileAccess::copy;
  }

  void place(const std::string& stem, std::span<TensorFileToRead> files) {
    const std::string shapes = str_cat(stem, kShapes);
    if (manifest_.files.contains(shapes)) {
      loaded_.ranges[stem] =
          place_ranges(files, read_json(folder_ / shapes), folder_, is_local_);
    } else {
      loaded_.weights[stem] = place_weights(files);
    }
  }

  fs::path folder_;
  const Manifest& manifest_;
  bool is_local_ = is_on_local_disk(folder_);
  LoadedCheckpoint loaded_;
};

// Throws what is wrong apart from bytes that are not as the manifest says.
std::vector<Damage> read_checkpoint(
    const fs::path& folder,
    const VerifyOptions& mine,
    std::optional<LoadedCheckpoint>& loaded) {
  const Manifest manifest = read_manifest(folder);
  VerifyOptions small = mine;
  small.without = shared_tensors(manifest);
  std::vector<Damage> damages = verify_checkpoint(folder, manifest, small);
  if (!damages.empty()) {
    // All of it is to be told.
    return verify_checkpoint(folder, manifest, mine);
  }
  try {
    Reader reader(folder, manifest);
    reader.read_small_files();
    damages = reader.read_tensors();
    loaded = reader.take();
  } catch (const FormatError&) {
    // A header that makes no sense: bytes that changed say more.
    damages =
        verify_checkpoint(folder, manifest, {.threads = at::get_num_threads()});
    if (damages.empty()) {
      throw;
    }
  }
  return damages;
}

[[noreturn]] void throw_damaged(
    const fs::path& folder, const std::set<std::string>& damages) {
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
      "load another one; `accelerate checkpoint verify` tells whether it is "
      "whole");
}

}  // namespace

LoadedCheckpoint load_together(
    const fs::path& folder, const Group& group, const bool share) {
  const VerifyOptions mine{
      .checksums = true,
      .reader = share ? group.rank() : 0,
      .readers = share ? group.size() : 1,
      .threads = at::get_num_threads()};
  std::optional<LoadedCheckpoint> loaded;
  Json found = Json::array();
  try {
    for (const auto& [file, what] : read_checkpoint(folder, mine, loaded)) {
      found.push_back(str_cat(file, " ", what));
    }
  } catch (const std::exception& error) {
    found.push_back(error.what());
  }
  std::set<std::string> damages;
  for (const Json& theirs : group.gather_object({found})) {
    for (const Json& damage : theirs.as_array()) {
      damages.insert(damage.as_string());
    }
  }
  if (!damages.empty()) {
    throw_damaged(folder, damages);
  }
  return std::move(*loaded);
}

}  // namespace accelerate
