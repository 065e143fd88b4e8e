// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_directory/manifest.h"

#include <algorithm>
#include <limits>

#include "accelerate/error.h"
#include "accelerate/json.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "checkpoint_directory/plain_file.h"

namespace accelerate {
namespace {

constexpr const char* kFormat = "accelerate-cpp checkpoint";
constexpr std::size_t kMaxBytes = std::size_t{64} << 20;

// Whether a name refers to a file directly inside the folder.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find('/') == name.npos && name.find('\0') == name.npos;
}

// Returns the manifest without the member `checksum`, which is the checksum of
// all other members.
Json without_checksum(const Json& json) {
  Json rest = json;
  rest.as_object().erase("checksum");
  return rest;
}

void check_version(
    const Json& json, Manifest& manifest, const std::string& source) {
  const std::string& version = json.at("version").as_string();
  const auto dot = version.find('.');
  const auto digits = [](const std::string& part) {
    return !part.empty() && part.size() < 6 &&
           part.find_first_not_of("0123456789") == part.npos;
  };
  if (dot == version.npos || !digits(version.substr(0, dot)) ||
      !digits(version.substr(dot + 1))) {
    throw FormatError(str_cat(
        source, ": `version` is `", version, "`, but must look like `1.0`"));
  }
  manifest.major = std::stoi(version.substr(0, dot));
  manifest.minor = std::stoi(version.substr(dot + 1));
  if (manifest.major > Manifest{}.major) {
    throw FormatError(
        str_cat(
            source,
            ": this checkpoint has format version ",
            version,
            ", but this build reads only versions up to ",
            Manifest{}.major,
            ".x"),
        "load it with a newer version of the library");
  }
}

std::int64_t count_of(
    const Json& json, const char* key, const std::string& source) {
  const auto value = json.at(key).as_integer();
  if (value < 0) {
    throw FormatError(str_cat(source, ": `", key, "` is negative: ", value));
  }
  return value;
}

int world_size_of(const Json& json, const std::string& source) {
  const auto value = count_of(json, "world_size", source);
  if (value > std::numeric_limits<int>::max()) {
    throw FormatError(str_cat(source, ": `world_size` is too large: ", value));
  }
  return static_cast<int>(value);
}

// Whether a path is below the hooks folder.
bool is_hook_path(const std::string& path) {
  const std::vector<std::string> names = split(path, '/');
  return names.size() > 1 && names.front() == kHooksDirectory &&
         std::ranges::all_of(names, is_plain_name);
}

std::map<std::string, FileChecksum> read_files(
    const Json& list,
    bool (*is_allowed)(const std::string&),
    const std::string& source) {
  std::map<std::string, FileChecksum> files;
  for (const auto& [name, entry] : list.as_object()) {
    if (!is_allowed(name)) {
      throw FormatError(str_cat(
          source,
          ": `",
          printable(name),
          "` is not a valid file name in a checkpoint"));
    }
    files[name] = {
        static_cast<std::uint64_t>(count_of(entry, "bytes", source)),
        entry.at("xxh3").as_string()};
  }
  return files;
}

Json list_of(const std::map<std::string, FileChecksum>& files) {
  Json list = Json::object();
  for (const auto& [name, file] : files) {
    list[name] = Json::object({{"bytes", file.bytes}, {"xxh3", file.xxh3}});
  }
  return list;
}

}  // namespace

std::uint64_t Manifest::bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [name, file] : files) {
    sum += file.bytes;
  }
  for (const auto& [name, file] : hook_files) {
    sum += file.bytes;
  }
  return sum;
}

std::string Manifest::to_json() const {
  Json json = Json::object(
      {{"format", kFormat},
       {"version", str_cat(major, ".", minor)},
       {"step", step},
       {"epoch", epoch},
       {"iteration", iteration},
       {"world_size", world_size},
       {"created", created}});
  json["files"] = list_of(files);
  if (!hook_files.empty()) {
    json["hook_files"] = list_of(hook_files);
  }
  json["checksum"] = checksum_of(json.dump());
  return json.dump({.indent = 2}) + "\n";
}

Manifest parse_manifest(const std::string& text, const std::string& source) {
  const Json json = Json::parse(text, {.source = source});
  const Json* format = json.find("format");
  if (format == nullptr || !format->is_string() ||
      format->as_string() != kFormat) {
    throw FormatError(str_cat(source, " is not a checkpoint manifest"));
  }
  Manifest manifest;
  try {
    check_version(json, manifest, source);
    if (json.at("checksum").as_string() !=
        checksum_of(without_checksum(json).dump())) {
      throw FormatError(
          str_cat(source, " was changed after it was written"),
          "load another checkpoint");
    }
    manifest.step = count_of(json, "step", source);
    manifest.epoch = count_of(json, "epoch", source);
    manifest.iteration = count_of(json, "iteration", source);
    manifest.world_size = world_size_of(json, source);
    manifest.created = json.at("created").as_string();
    manifest.files = read_files(json.at("files"), is_plain_name, source);
    if (const Json* hook_files = json.find("hook_files")) {
      manifest.hook_files = read_files(*hook_files, is_hook_path, source);
    }
  } catch (const FormatError& error) {
    const std::string message = error.what();
    if (message.starts_with(source)) {
      throw;
    }
    throw FormatError(str_cat(source, ": ", message), error.hint());
  }
  return manifest;
}

Manifest read_manifest(const std::filesystem::path& folder) {
  const auto path = folder / kManifestFile;
  const UniqueFd fd = open_plain_file(path);
  return parse_manifest(
      read_descriptor(fd.get(), path, kMaxBytes), path.string());
}

}  // namespace accelerate
