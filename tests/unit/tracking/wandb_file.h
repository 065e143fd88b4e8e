// SPDX-License-Identifier: Apache-2.0
// Reads the files that the tracker `wandb` writes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "accelerate/tracker.h"
#include "support/temporary_directory.h"
#include "tracking/leveldb_log.h"
#include "tracking/protobuf.h"
#include "tracking/run_files.h"
#include "tracking/wandb_records.h"

namespace accelerate {

inline std::string wandb_file_content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline TrackerSetup wandb_setup(
    const TemporaryDirectory& folder, Json kwargs = {}) {
  return {
      .project = "team/project",
      .run = "run",
      .logging_dir = folder.path(),
      .kwargs = std::move(kwargs)};
}

// Returns the path of the only `.wandb` file in the folder.
inline std::filesystem::path wandb_run_file(const TemporaryDirectory& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(folder.path())) {
    if (entry.path().extension() == ".wandb") {
      files.push_back(entry.path());
    }
  }
  if (files.size() != 1) {
    throw std::runtime_error(
        std::to_string(files.size()) + " files of runs instead of one");
  }
  return files.front();
}

using ProtoFields = std::multimap<int, ProtoField>;

inline ProtoFields proto_fields(std::string_view message) {
  ProtoFields fields;
  while (const auto field = read_proto_field(message)) {
    fields.emplace(field->number, *field);
  }
  EXPECT_TRUE(message.empty());
  return fields;
}

inline std::string proto_text(const ProtoFields& fields, int number) {
  const auto found = fields.find(number);
  return found == fields.end() ? "" : std::string(found->second.text);
}

/// The records of a run.
class WandbFile {
 public:
  explicit WandbFile(const std::filesystem::path& path)
      : content_(wandb_file_content(path)) {
    LogRecordReader reader(content_, wandb_file_header().size());
    while (auto record = reader.next()) {
      records_.push_back(std::move(*record));
    }
    EXPECT_EQ(reader.position(), content_.size()) << "damaged";
  }

  /// Returns the contents of the records of this kind.
  std::vector<std::string> of_kind(int kind) const {
    std::vector<std::string> result;
    for (const std::string& record : records_) {
      const ProtoFields fields = proto_fields(record);
      if (fields.contains(kind)) {
        result.push_back(proto_text(fields, kind));
      }
    }
    return result;
  }

  /// Returns the values of each row, by key; nested keys are joined with `.`.
  std::vector<std::map<std::string, std::string>> rows() const {
    std::vector<std::map<std::string, std::string>> result;
    for (const std::string& history : of_kind(kWandbHistory)) {
      std::map<std::string, std::string> row;
      for (const auto& [number, item] : proto_fields(history)) {
        if (number != 1) {
          continue;
        }
        std::string key;
        const ProtoFields fields = proto_fields(item.text);
        const auto [begin, end] = fields.equal_range(2);
        for (auto part = begin; part != end; ++part) {
          key += (key.empty() ? "" : ".") + std::string(part->second.text);
        }
        EXPECT_FALSE(row.contains(key)) << key;
        row[key] = proto_text(fields, 16);
      }
      result.push_back(row);
    }
    return result;
  }

  /// Returns the values of `key`, by step, as `step:value`.
  std::vector<std::string> steps_of(const std::string& key) const {
    std::vector<std::string> result;
    for (const auto& row : rows()) {
      if (row.contains(key)) {
        result.push_back(row.at("_step") + ":" + row.at(key));
      }
    }
    return result;
  }

  /// Returns the numbers of all records.
  std::vector<std::uint64_t> numbers() const {
    std::vector<std::uint64_t> result;
    for (const std::string& record : records_) {
      result.push_back(proto_fields(record).find(1)->second.integer);
    }
    return result;
  }

 private:
  std::string content_;
  std::vector<std::string> records_;
};

inline TrackedValues wandb_values(
    std::int64_t step, std::vector<TrackedEntry> entries) {
  static std::int64_t time_us = now_us();
  TrackedValues values;
  values.step = step;
  values.time_us = ++time_us;
  values.entries = std::move(entries);
  return values;
}

}  // namespace accelerate
