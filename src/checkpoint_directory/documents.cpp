// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_directory/documents.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "accelerate/json.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "checkpoint_directory/manifest.h"
#include "checkpoint_directory/plain_file.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using Differences = std::vector<DocumentDifference>;

constexpr std::size_t kMaxDocument = std::size_t{256} << 20;
// The elements of longer lists are counted, not listed one by one.
constexpr std::size_t kLongList = 16;
constexpr std::size_t kLongText = 60;
constexpr const char* kOnlyFirst = "only in the first";
constexpr const char* kOnlySecond = "only in the second";

bool is_leaf(const Json& value) {
  return !value.is_array() && !value.is_object();
}

std::string short_text_of(const Json& value) {
  const std::string text =
      value.dump({.ensure_ascii = true, .allow_nan = true});
  return text.size() <= kLongText ? text
                                  : text.substr(0, kLongText - 3) + "...";
}

bool is_long_list(const Json& value) {
  return value.is_array() && value.size() > kLongList &&
         std::ranges::all_of(value.as_array(), is_leaf);
}

/// Compares two documents of the same name.
class Comparison {
 public:
  Comparison(std::string document, Differences& differences)
      : document_(std::move(document)), differences_(differences) {}

  void compare(const std::string& key, const Json& first, const Json& second) {
    if (is_long_list(first) && is_long_list(second)) {
      compare_lists(key, first.as_array(), second.as_array());
    } else if (first.is_object() && second.is_object()) {
      compare_members(key, first.as_object(), second.as_object());
    } else if (first.is_array() && second.is_array()) {
      compare_elements(key, first.as_array(), second.as_array());
    } else if (first != second) {
      add(key, str_cat(short_text_of(first), " and ", short_text_of(second)));
    }
  }

 private:
  void add(const std::string& key, std::string description) {
    differences_.push_back({document_, key, std::move(description)});
  }

  void compare_lists(
      const std::string& key,
      const Json::Array& first,
      const Json::Array& second) {
    if (first.size() != second.size()) {
      add(key, str_cat(first.size(), " values and ", second.size()));
      return;
    }
    std::size_t differing = 0;
    for (std::size_t i = 0; i < first.size(); ++i) {
      differing += first[i] != second[i] ? 1 : 0;
    }
    if (differing > 0) {
      add(key, str_cat(differing, " of ", first.size(), " values differ"));
    }
  }

  void compare_elements(
      const std::string& key,
      const Json::Array& first,
      const Json::Array& second) {
    for (std::size_t i = 0; i < std::max(first.size(), second.size()); ++i) {
      const std::string below = str_cat(key, "[", i, "]");
      if (i >= second.size()) {
        add(below, kOnlyFirst);
      } else if (i >= first.size()) {
        add(below, kOnlySecond);
      } else {
        compare(below, first[i], second[i]);
      }
    }
  }

  void compare_members(
      const std::string& key,
      const Json::Object& first,
      const Json::Object& second) {
    const auto below = [&](const std::string& name) {
      return key.empty() ? name : str_cat(key, ".", name);
    };
    for (const auto& [name, value] : first) {
      if (const Json* other = second.find(name)) {
        compare(below(name), value, *other);
      } else {
        add(below(name), kOnlyFirst);
      }
    }
    for (const auto& [name, value] : second) {
      if (first.find(name) == nullptr) {
        add(below(name), kOnlySecond);
      }
    }
  }

  std::string document_;
  Differences& differences_;
};

bool is_document(const std::string& name) {
  return name.ends_with(".json") && !name.ends_with(".safetensors.index.json");
}

Json read_document(const fs::path& path) {
  const UniqueFd fd = open_plain_file(path);
  return Json::parse(
      read_descriptor(fd.get(), path, kMaxDocument), {.source = path.string()});
}

std::set<std::string> names_of(
    const std::map<std::string, FileChecksum>& first,
    const std::map<std::string, FileChecksum>& second) {
  std::set<std::string> names;
  for (const auto& [name, sum] : first) {
    names.insert(name);
  }
  for (const auto& [name, sum] : second) {
    names.insert(name);
  }
  return names;
}

Json run_of(const Manifest& manifest) {
  return Json::object(
      {{"step", manifest.step},
       {"epoch", manifest.epoch},
       {"world_size", manifest.world_size}});
}

// Calls `compare` for files in both checkpoints, and reports files that only
// one checkpoint has.
template <typename Compare>
void compare_files(
    const std::map<std::string, FileChecksum>& first,
    const std::map<std::string, FileChecksum>& second,
    Differences& differences,
    const Compare& compare) {
  for (const std::string& name : names_of(first, second)) {
    if (!second.contains(name)) {
      differences.push_back({name, "", kOnlyFirst});
    } else if (!first.contains(name)) {
      differences.push_back({name, "", kOnlySecond});
    } else {
      compare(name);
    }
  }
}

std::map<std::string, FileChecksum> documents_of(const Manifest& manifest) {
  std::map<std::string, FileChecksum> documents = manifest.files;
  std::erase_if(
      documents, [](const auto& file) { return !is_document(file.first); });
  return documents;
}

}  // namespace

std::vector<DocumentDifference> compare_documents(
    const fs::path& first_folder, const fs::path& second_folder) {
  const Manifest first = read_manifest(first_folder);
  const Manifest second = read_manifest(second_folder);
  Differences differences;
  Comparison(kManifestFile, differences)
      .compare("", run_of(first), run_of(second));
  compare_files(
      documents_of(first),
      documents_of(second),
      differences,
      [&](const std::string& name) {
        Comparison(name, differences)
            .compare(
                "",
                read_document(first_folder / name),
                read_document(second_folder / name));
      });
  compare_files(
      first.hook_files,
      second.hook_files,
      differences,
      [&](const std::string& name) {
        const FileChecksum& left = first.hook_files.at(name);
        const FileChecksum& right = second.hook_files.at(name);
        if (left.bytes != right.bytes) {
          differences.push_back(
              {name, "", str_cat(left.bytes, " bytes and ", right.bytes)});
        } else if (left.xxh3 != right.xxh3) {
          differences.push_back({name, "", "the contents differ"});
        }
      });
  return differences;
}

}  // namespace accelerate
