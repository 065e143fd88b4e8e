// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/reader.h"

#include <new>
#include <set>
#include <utility>

#include <ATen/Parallel.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "checkpoint/directory_reader.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

// Keys of the messages between ranks.
constexpr const char* kProblems = "problems";
constexpr const char* kNoMemory = "no memory";
constexpr const char* kRequest = "request";
constexpr const char* kRun = "run";

// Returns files whose bytes do not match the manifest; throws for any other
// problem.
std::vector<Damage> read_checkpoint(
    const fs::path& folder,
    const VerifyOptions& options,
    const ChooseRanges& choose,
    std::optional<LoadedCheckpoint>& loaded) {
  const Manifest manifest = read_manifest(folder);
  VerifyOptions small = options;
  small.skip_checksums = large_files(manifest);
  std::vector<Damage> damages = verify_checkpoint(folder, manifest, small);
  if (!damages.empty()) {
    // Report all damage, not only damage in the small files.
    return verify_checkpoint(folder, manifest, options);
  }
  try {
    DirectoryReader reader(folder, manifest, options, choose);
    reader.read_small_files();
    damages = reader.read_tensors();
    loaded = reader.take();
  } catch (const FormatError&) {
    // A header may be damaged; a checksum mismatch is then the clearer message.
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
        "run `accelerate checkpoint list <folder>` to list complete "
        "checkpoints");
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
              " ran out of memory while loading ",
              folder.string(),
              ": ",
              error.as_string()),
          "free memory on the machine of this rank, or start fewer processes "
          "on it");
    }
  }
}

void check_requests(const std::vector<Json>& all, const fs::path& folder) {
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (const Json& error = all[rank].at(kRequest); !error.is_null()) {
      throw ArgumentError(str_cat(
          "rank ",
          rank,
          " cannot load its part of ",
          folder.string(),
          ": ",
          error.as_string()));
    }
  }
}

// If each node has its own checkpoint, the checkpoints with this name may come
// from different saves.
void check_same_run(const std::vector<Json>& all, const fs::path& folder) {
  const std::string first = all.front().at(kRun).as_string();
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (const auto other = all[rank].at(kRun).as_string(); other != first) {
      throw FormatError(
          str_cat(
              "the checkpoint ",
              folder.string(),
              " is not the same on all nodes: rank 0 has ",
              first,
              ", but rank ",
              rank,
              " has ",
              other),
          "load a checkpoint that all nodes have");
    }
  }
}

}  // namespace

LoadedCheckpoint load_checkpoint(
    const fs::path& folder,
    const Group& group,
    const bool share,
    const ChooseRanges& choose) {
  const VerifyOptions options{
      .checksums = true,
      .reader = share ? group.rank() : 0,
      .readers = share ? group.size() : 1,
      .threads = at::get_num_threads()};
  std::optional<LoadedCheckpoint> loaded;
  Json problems = Json::array();
  Json no_memory;
  Json request;
  try {
    for (const auto& [file, problem] :
         read_checkpoint(folder, options, choose, loaded)) {
      problems.push_back(str_cat(file, " ", problem));
    }
  } catch (const OutOfMemoryError& error) {
    no_memory = error.what();
  } catch (const std::bad_alloc& error) {
    no_memory = error.what();
  } catch (const ArgumentError& error) {
    request = error.what();
  } catch (const std::exception& error) {
    problems.push_back(error.what());
  }
  const auto all = group.gather_object({Json::object(
      {{kProblems, problems},
       {kNoMemory, no_memory},
       {kRequest, request},
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
  check_requests(all, folder);
  check_same_run(all, folder);
  return std::move(*loaded);
}

}  // namespace accelerate
