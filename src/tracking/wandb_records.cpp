// SPDX-License-Identifier: Apache-2.0
#include "tracking/wandb_records.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tracking/leveldb_log.h"

namespace accelerate {
namespace {

// The identifier of the format, its magic number and its version.
constexpr std::string_view kFileHeader("\x3aW&B\xe1\xbe\0", 7);

// Field numbers of the messages in wandb_internal.proto of W&B 0.31.
constexpr int kRecordNumber = 1;
constexpr int kHistoryItem = 1;  // Also of summaries and configurations.
constexpr int kHistoryStep = 2;
constexpr int kItemKey = 1;
constexpr int kItemNestedKey = 2;
constexpr int kItemJson = 16;
constexpr int kRunStartingStep = 14;
constexpr int kFilesItem = 1;
constexpr int kFilesItemPath = 1;

// W&B writes numbers that are not finite as Python's `json` does.
std::string value_json(const Json& value) {
  return value.dump({.allow_nan = true});
}

void add_items(
    std::vector<std::string>& path, const Json& value, std::string& items) {
  if (value.is_object() && value.size() > 0) {
    for (const JsonMember& member : value.as_object()) {
      path.push_back(member.key);
      add_items(path, member.value, items);
      path.pop_back();
    }
    return;
  }
  ProtoMessage item;
  for (const std::string& key : path) {
    item.text(kItemNestedKey, key);
  }
  item.text(kItemJson, value_json(value));
  items += ProtoMessage().message(kHistoryItem, item).bytes();
}

// In configurations, W&B replaces numbers that are not finite with null.
Json without_nan(const Json& value) {
  if (value.is_array()) {
    Json result = Json::array();
    for (const Json& element : value.as_array()) {
      result.push_back(without_nan(element));
    }
    return result;
  }
  if (value.is_object()) {
    Json result = Json::object();
    for (const JsonMember& member : value.as_object()) {
      result[member.key] = without_nan(member.value);
    }
    return result;
  }
  return value.is_number() && !std::isfinite(value.as_double()) ? Json()
                                                                : value;
}

struct ItemFields {
  std::string key;
  std::string_view json;
};

ItemFields item_fields(std::string_view item) {
  ItemFields result;
  bool first = true;
  while (const auto field = read_proto_field(item)) {
    if (field->number == kItemNestedKey && first) {
      result.key = field->text;
      first = false;
    } else if (field->number == kItemJson) {
      result.json = field->text;
    }
  }
  return result;
}

double number_in(std::string_view json) {
  const Json value = Json::parse(json, {.source = "W&B's file"});
  return value.is_number() ? value.as_double() : 0;
}

struct ParsedRow {
  WandbRow row;
  double seconds = 0;
  double runtime = 0;
};

ParsedRow parse_row(std::string_view history) {
  ParsedRow parsed;
  while (const auto field = read_proto_field(history)) {
    if (field->number != kHistoryItem) {
      continue;
    }
    const ItemFields item = item_fields(field->text);
    parsed.row.items[item.key] +=
        ProtoMessage().text(kHistoryItem, field->text).bytes();
    if (item.key == "_step") {
      parsed.row.step = std::llround(number_in(item.json));
    } else if (item.key == "_timestamp") {
      parsed.seconds = number_in(item.json);
    } else if (item.key == "_runtime") {
      parsed.runtime = number_in(item.json);
    }
  }
  return parsed;
}

void add_files(std::string_view files, WandbRow& row) {
  while (const auto file = read_proto_field(files)) {
    std::string_view item = file->text;
    while (const auto field = read_proto_field(item)) {
      if (field->number == kFilesItemPath) {
        row.files.emplace_back(field->text);
      }
    }
  }
}

void add_run(std::string_view run, WandbPosition& position) {
  while (const auto field = read_proto_field(run)) {
    if (field->number == kRunStartingStep) {
      position.first_step = static_cast<std::int64_t>(field->integer);
    }
  }
}

void add_row(ParsedRow parsed, WandbPosition& position) {
  for (const auto& [key, item] : parsed.row.items) {
    position.summary[key] = item;
  }
  const std::int64_t step = parsed.row.step;
  position.last_step = std::max(position.last_step.value_or(step), step);
  position.runtime = parsed.runtime;
  position.row = std::move(parsed.row);
  position.row_begin = position.end;
  position.row_records = position.records;
}

// Adds the record to the position. Returns whether the run keeps it.
bool keep_record(
    std::string_view record,
    std::int64_t keep_until_us,
    WandbPosition& position) {
  while (const auto field = read_proto_field(record)) {
    if (field->number == kWandbExit) {
      return false;
    }
    if (field->number == kWandbHistory) {
      ParsedRow parsed = parse_row(field->text);
      if (std::llround(parsed.seconds * 1e6) > keep_until_us) {
        return false;
      }
      add_row(std::move(parsed), position);
    } else if (field->number == kWandbRun) {
      add_run(field->text, position);
    } else if (field->number == kWandbFiles && position.row) {
      add_files(field->text, *position.row);
    } else if (field->number == kWandbConfig) {
      position.row.reset();  // It can no longer be replaced.
    }
  }
  return true;
}

}  // namespace

std::string wandb_file_header() {
  return std::string(kFileHeader);
}

std::string wandb_record(
    std::int64_t number, int kind, std::string_view content) {
  return ProtoMessage()
      .integer(kRecordNumber, number)
      .text(kind, content)
      .bytes();
}

std::string wandb_header_content() {
  return ProtoMessage()
      .message(1, ProtoMessage().text(1, "0.31.0").text(2, "0.70.0"))
      .bytes();
}

std::string wandb_run_content(
    const WandbOptions& options,
    std::int64_t start_us,
    const std::optional<std::int64_t>& first_step) {
  ProtoMessage run;
  const auto add = [&run](int field, const std::string& text) {
    if (!text.empty()) {
      run.text(field, text);
    }
  };
  add(1, options.id);
  add(2, options.entity);
  add(3, options.project);
  add(6, options.group);
  add(7, options.job_type);
  add(8, options.name);
  add(9, options.notes);
  for (const std::string& tag : options.tags) {
    add(10, tag);
  }
  if (first_step) {
    run.integer(kRunStartingStep, *first_step);
  }
  constexpr std::int64_t kSecond = 1000000;
  run.message(
      17,
      ProtoMessage()
          .integer(1, start_us / kSecond)
          .integer(2, start_us % kSecond * 1000));
  return run.bytes();
}

std::string wandb_config_content(const Json& config) {
  const Json finite = without_nan(
      config.is_object() ? config : Json::object({{"value", config}}));
  ProtoMessage content;
  for (const JsonMember& member : finite.as_object()) {
    content.message(
        kHistoryItem,
        ProtoMessage()
            .text(kItemKey, member.key)
            .text(kItemJson, value_json(member.value)));
  }
  return content.bytes();
}

std::string wandb_exit_content(std::int64_t runtime_seconds) {
  return ProtoMessage().integer(1, 0).integer(2, runtime_seconds).bytes();
}

void WandbRow::set(const std::string& key, const Json& value) {
  std::vector<std::string> path{key};
  std::string& encoded = items[key];
  encoded.clear();
  add_items(path, value, encoded);
}

std::string WandbRow::encoded() const {
  std::string result;
  for (const auto& [key, item] : items) {
    result += item;
  }
  return result;
}

std::vector<std::string> WandbRow::records(std::int64_t first_number) const {
  const std::string content = encoded();
  const ProtoMessage number = ProtoMessage().integer(1, step);
  std::vector<std::string> result;
  const auto add = [&](int kind, std::string_view encoded_content) {
    const auto before = static_cast<std::int64_t>(result.size());
    result.push_back(
        wandb_record(first_number + before, kind, encoded_content));
  };
  add(kWandbHistory,
      content + ProtoMessage().message(kHistoryStep, number).bytes());
  if (!files.empty()) {
    ProtoMessage list;
    for (const std::string& path : files) {
      list.message(kFilesItem, ProtoMessage().text(kFilesItemPath, path));
    }
    add(kWandbFiles, list.bytes());
  }
  add(kWandbSummary, content);
  return result;
}

WandbPosition wandb_position(
    std::string_view file, std::int64_t keep_until_us) {
  WandbPosition position;
  if (!file.starts_with(kFileHeader)) {
    return position;
  }
  position.end = kFileHeader.size();
  LogRecordReader reader(file, position.end);
  while (const auto record = reader.next()) {
    if (!keep_record(*record, keep_until_us, position)) {
      break;
    }
    position.end = reader.position();
    ++position.records;
  }
  return position;
}

}  // namespace accelerate
