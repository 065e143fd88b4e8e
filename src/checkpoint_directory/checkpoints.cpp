// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_directory/checkpoints.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <tuple>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "checkpoint_directory/leftovers.h"
#include "checkpoint_directory/renames.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kName = "checkpoint";

// An unreadable folder is not a checkpoint of this user, so `path_exists` may
// return false for its manifest.
bool may_be_checkpoint(const fs::path& folder) {
  const std::string name = folder.filename().string();
  return !is_temporary_name(name) &&
         (name.starts_with(kName) || path_exists(folder / kManifestFile));
}

CheckpointEntry examine(const fs::path& path) {
  CheckpointEntry entry;
  entry.path = path;
  try {
    entry.manifest = read_manifest(path);
    const auto damages =
        verify_checkpoint(path, *entry.manifest, {.checksums = false});
    if (!damages.empty()) {
      entry.problem =
          str_cat(damages.front().file, ": ", damages.front().problem);
      entry.manifest.reset();
    }
  } catch (const std::exception& error) {
    entry.problem = error.what();
  }
  return entry;
}

std::int64_t iteration_of(const CheckpointEntry& entry) {
  const auto number = checkpoint_number(entry.path.filename().string());
  return entry.manifest ? entry.manifest->iteration : number.value_or(-1);
}

// Returns the problem if the path of a file contains a symbolic link; hook
// files may be in subfolders.
std::optional<std::string> symlink_in_path(
    const fs::path& folder, const std::string& name) {
  fs::path path = folder;
  std::error_code error;
  for (const fs::path& step : fs::path(name).parent_path()) {
    path /= step;
    if (fs::is_symlink(path, error)) {
      return "is reached through a symbolic link";
    }
  }
  return std::nullopt;
}

std::optional<std::string> damage_of(
    const fs::path& path, const FileChecksum& expected, const bool checksums) {
  std::error_code error;
  const auto status = fs::symlink_status(path, error);
  if (status.type() == fs::file_type::not_found) {
    return "is missing";
  }
  if (error) {
    return str_cat("cannot be read: ", errno_text(error.value()));
  }
  if (status.type() == fs::file_type::symlink) {
    return "is a symbolic link, not a file";
  }
  if (status.type() != fs::file_type::regular) {
    return "is not a regular file";
  }
  const auto bytes = fs::file_size(path, error);
  if (!error && bytes != expected.bytes) {
    return str_cat(
        "has ", bytes, " bytes, but the manifest says ", expected.bytes);
  }
  if (!checksums) {
    return std::nullopt;
  }
  const FileChecksum found = checksum_file(path);
  if (found.xxh3 != expected.xxh3) {
    return str_cat(
        "has checksum ", found.xxh3, ", but the manifest says ", expected.xxh3);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> checkpoint_number(const std::string& name) {
  const std::string prefix = str_cat(kName, "_");
  if (!name.starts_with(prefix)) {
    return std::nullopt;
  }
  const std::string digits = name.substr(prefix.size());
  if (digits.empty() || digits.size() > 18 ||
      digits.find_first_not_of("0123456789") != digits.npos) {
    return std::nullopt;
  }
  return std::stoll(digits);
}

std::vector<CheckpointEntry> list_checkpoints(const fs::path& folder) {
  std::error_code error;
  std::vector<CheckpointEntry> entries;
  for (const fs::path& found : subdirectories_of(folder, error)) {
    if (may_be_checkpoint(found)) {
      entries.push_back(examine(found));
    }
  }
  if (error) {
    throw_errno("read", folder, error.value());
  }
  std::ranges::sort(
      entries, [](const CheckpointEntry& left, const CheckpointEntry& right) {
        return std::tuple(iteration_of(left), left.path) <
               std::tuple(iteration_of(right), right.path);
      });
  return entries;
}

std::vector<Damage> verify_checkpoint(
    const fs::path& folder,
    const Manifest& manifest,
    const VerifyOptions& options) {
  std::vector<std::pair<std::string, FileChecksum>> files(
      manifest.files.begin(), manifest.files.end());
  files.insert(
      files.end(), manifest.hook_files.begin(), manifest.hook_files.end());
  std::vector<std::optional<std::string>> found(files.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < files.size(); i = next++) {
      const bool is_own_share =
          static_cast<int>(i % static_cast<std::size_t>(options.readers)) ==
              options.reader &&
          !options.skip_checksums.contains(files[i].first);
      try {
        found[i] = symlink_in_path(folder, files[i].first);
        if (!found[i]) {
          found[i] = damage_of(
              folder / files[i].first,
              files[i].second,
              options.checksums && is_own_share);
        }
      } catch (const std::exception& error) {
        found[i] = error.what();
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int thread = 1; thread < options.threads; ++thread) {
      threads.emplace_back(work);
    }
    work();
  }
  std::vector<Damage> damages;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (found[i]) {
      damages.push_back({files[i].first, *found[i]});
    }
  }
  return damages;
}

std::string describe(const std::vector<Damage>& damages) {
  std::string text;
  for (const auto& [file, problem] : damages) {
    text += str_cat("\n  ", file, " ", problem);
  }
  return text;
}

std::vector<fs::path> prune_checkpoints(
    const fs::path& folder, const PruneOptions& options) {
  if (options.keep == 0) {
    throw ArgumentError("cannot prune to 0 checkpoints", "keep 1 or more");
  }
  std::vector<CheckpointEntry> entries = list_checkpoints(folder);
  std::erase_if(entries, [&](const CheckpointEntry& entry) {
    return !entry.manifest ||
           (options.checksums &&
            !verify_checkpoint(entry.path, *entry.manifest).empty());
  });
  std::vector<fs::path> removed;
  for (std::size_t i = 0; i + options.keep < entries.size(); ++i) {
    if (entries[i].path.filename() == options.newest.filename()) {
      break;
    }
    remove_folder(entries[i].path);
    removed.push_back(entries[i].path);
  }
  return removed;
}

std::int64_t next_checkpoint_number(const fs::path& folder) {
  std::int64_t next = 0;
  if (!path_exists(folder)) {
    return next;
  }
  for (const CheckpointEntry& entry : list_checkpoints(folder)) {
    if (entry.manifest) {
      next = std::max(next, iteration_of(entry) + 1);
    }
  }
  return next;
}

}  // namespace accelerate
