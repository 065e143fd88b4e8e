// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/reader.h"

#include <algorithm>
#include <new>
#include <set>
#include <span>
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
#include "checkpoint/tensor_files.h"
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
// Keys of the messages between ranks.
constexpr const char* kProblems = "problems";
constexpr const char* kNoMemory = "no memory";
constexpr const char* kRun = "run";

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

// Files of weights and ranges, which every rank reads completely.
bool is_shared_tensors(const std::string& file) {
  return file.ends_with(kTensors) && !file.starts_with(kRankPrefix);
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

  /// Reads the files that are already verified.
  void read_small_files() {
    for (const auto& [name, sum] : manifest_.files) {
      if (!name.ends_with(kTensors) && !name.ends_with(kIndex) &&
          !name.ends_with(kShapes)) {
        loaded_.documents[name.substr(0, name.rfind('.'))] =
            with_infinities(read_json(folder_ / name));
      }
    }
    read_rank_files();
  }

  /// Reads the other files; returns the damaged ones.
  std::vector<Damage> read_tensors() {
    std::map<std::string, std::vector<std::string>> names;
    for (const std::string& name : shared_tensors(manifest_)) {
      names[stem_of(name)].push_back(name);
    }
    // Reserved, because spans into it must stay valid.
    std::vector<TensorFileToRead> files;
    files.reserve(manifest_.files.size());
    for (const auto& [stem, parts] : names) {
      check_parts(stem, parts);
      const std::size_t first = files.size();
      for (const std::string& part : parts) {
        files.push_back(open_tensor_file(
            folder_ / part, manifest_.files.at(part), access_to(stem)));
      }
      allocate(stem, std::span(files).subspan(first));
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
  // All of `model-00001-of-00003.safetensors` to `model-00003-of-00003…`.
  void check_parts(
      const std::string& stem, const std::vector<std::string>& parts) const {
    const auto count = static_cast<int>(parts.size());
    for (int part = 0; part < count; ++part) {
      if (parts[static_cast<std::size_t>(part)] !=
          tensor_file_name(stem, part, count)) {
        throw FormatError(str_cat(
            folder_.string(),
            " lacks parts of `",
            stem,
            "`; it has only ",
            join(parts, ", ")));
      }
    }
  }

  void read_rank_files() {
    if (manifest_.world_size > kMaxProcesses) {
      throw FormatError(str_cat(
          folder_.string(),
          ": the manifest claims an impossible `world_size` of ",
          manifest_.world_size));
    }
    for (int rank = 0; rank < manifest_.world_size; ++rank) {
      const std::string file = rank_file_name(rank);
      loaded_.rank_states.push_back(
          manifest_.files.contains(file) ? load_safetensors(folder_ / file)
                                         : TensorMap());
    }
    if (std::ranges::all_of(
            loaded_.rank_states,
            [](const TensorMap& rank_state) { return rank_state.empty(); })) {
      throw FormatError(
          str_cat(folder_.string(), " has no `rank-*.safetensors` files"));
    }
  }

  // Weights are copied into the tensors of the run; ranges are adopted by it.
  FileAccess access_to(const std::string& stem) const {
    const bool ranges = manifest_.files.contains(str_cat(stem, kShapes));
    return is_local_ && !ranges ? FileAccess::map : FileAccess::copy;
  }

  void allocate(const std::string& stem, std::span<TensorFileToRead> files) {
    const std::string shapes = str_cat(stem, kShapes);
    if (manifest_.files.contains(shapes)) {
      loaded_.ranges[stem] = allocate_ranges(
          files, read_json(folder_ / shapes), folder_, is_local_);
    } else {
      loaded_.weights[stem] = allocate_weights(files);
    }
  }

  fs::path folder_;
  const Manifest& manifest_;
  bool is_local_ = is_on_local_disk(folder_);
  LoadedCheckpoint loaded_;
};

// Returns files whose bytes do not match the manifest; throws for any other
// problem.
std::vector<Damage> read_checkpoint(
    const fs::path& folder,
    const VerifyOptions& options,
    std::optional<LoadedCheckpoint>& loaded) {
  const Manifest manifest = read_manifest(folder);
  VerifyOptions small = options;
  small.skip_checksums = shared_tensors(manifest);
  std::vector<Damage> damages = verify_checkpoint(folder, manifest, small);
  if (!damages.empty()) {
    // Report all damage, not only damage in the small files.
    return verify_checkpoint(folder, manifest, options);
  }
  try {
    Reader reader(folder, manifest);
    reader.read_small_files();
    damages = reader.read_tensors();
    loaded = reader.take();
  } catch (const FormatError&) {
    // A damaged header: a checksum mismatch is the clearer message.
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
            "no complete checkpoint at ",
            folder.string(),
            ": ",
            kManifestFile,
            " is missing"),
        "run `accelerate checkpoint list` to list complete checkpoints");
  }
  std::string list;
  for (const std::string& damage : damages) {
    list += str_cat("\n  ", damage);
  }
  throw FormatError(
      str_cat("the checkpoint ", folder.string(), " is damaged", list),
      "load a checkpoint that passes `accelerate checkpoint verify`");
}

std::string describe_run(const LoadedCheckpoint& loaded) {
  return str_cat(
      "step ",
      loaded.step,
      ", iteration ",
      loaded.iteration,
      " and world size ",
      loaded.world_size());
}

void check_memory(const std::vector<Json>& all, const fs::path& folder) {
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (const Json& error = all[rank].at(kNoMemory); !error.is_null()) {
      throw OutOfMemoryError(
          str_cat(
              "rank ",
              rank,
              " ran out of memory loading ",
              folder.string(),
              ": ",
              error.as_string()),
          "free memory on the machine of this rank, or start fewer processes "
          "on it");
    }
  }
}

// Where each node has its own checkpoint, a checkpoint with this name may be
// from another save.
void check_same_run(const std::vector<Json>& all, const fs::path& folder) {
  const std::string first = all.front().at(kRun).as_string();
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (const auto other = all[rank].at(kRun).as_string(); other != first) {
      throw FormatError(
          str_cat(
              folder.string(),
              " differs between nodes: rank 0 has ",
              first,
              ", rank ",
              rank,
              " has ",
              other),
          "load a checkpoint that all nodes have");
    }
  }
}

}  // namespace

LoadedCheckpoint load_checkpoint(
    const fs::path& folder, const Group& group, const bool share) {
  const VerifyOptions options{
      .checksums = true,
      .reader = share ? group.rank() : 0,
      .readers = share ? group.size() : 1,
      .threads = at::get_num_threads()};
  std::optional<LoadedCheckpoint> loaded;
  Json problems = Json::array();
  Json no_memory;
  try {
    for (const auto& [file, problem] :
         read_checkpoint(folder, options, loaded)) {
      problems.push_back(str_cat(file, " ", problem));
    }
  } catch (const OutOfMemoryError& error) {
    no_memory = error.what();
  } catch (const std::bad_alloc& error) {
    no_memory = error.what();
  } catch (const std::exception& error) {
    problems.push_back(error.what());
  }
  const auto all = group.gather_object({Json::object(
      {{kProblems, problems},
       {kNoMemory, no_memory},
       {kRun, loaded ? describe_run(*loaded) : ""}})});
  check_memory(all, folder);
  std::set<std::string> damages;
  for (const Json& report : all) {
    for (const Json& damage : report.at(kProblems).as_array()) {
      damages.insert(damage.as_string());
    }
  }
  if (!damages.empty()) {
    throw_damaged(folder, damages);
  }
  check_same_run(all, folder);
  return std::move(*loaded);
}

}  // namespace accelerate
