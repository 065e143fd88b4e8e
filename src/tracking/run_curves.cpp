// SPDX-License-Identifier: Apache-2.0
#include "tracking/run_curves.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "accelerate/error.h"
#include "accelerate/json.h"
#include "base/mapped_file.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "tracking/csv_tracker.h"
#include "tracking/event_file.h"
#include "tracking/json_lines_tracker.h"
#include "tracking/protobuf.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

/// Collects values; a later value of the same step replaces an earlier one.
class CurveBuilder {
 public:
  void add(const std::string& key, double step, double value) {
    values_[key][step] = value;
  }
  RunCurves build(std::string name) const {
    RunCurves run;
    run.name = std::move(name);
    for (const auto& [key, values] : values_) {
      Curve& curve = run.curves[key];
      for (const auto& [step, value] : values) {
        curve.steps.push_back(step);
        curve.values.push_back(value);
      }
    }
    return run;
  }

 private:
  std::map<std::string, std::map<double, double>> values_;
};

// "NaN" and "Infinity" are texts in the files.
std::optional<double> number_of_text(const std::string& text) {
  if (text == "NaN") {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (text == "Infinity" || text == "-Infinity") {
    const double infinity = std::numeric_limits<double>::infinity();
    return text[0] == '-' ? -infinity : infinity;
  }
  return parse_double(text);
}

std::string_view content_of(const MappedFile& file) {
  return file.size() == 0 ? std::string_view() : file.text();
}

void read_json_lines(const fs::path& path, CurveBuilder& curves) {
  const MappedFile file(path, MappedFile::Mode::read_only);
  std::string_view rest = content_of(file);
  for (auto end = rest.find('\n'); end != std::string_view::npos;
       end = rest.find('\n')) {
    const Json line =
        Json::parse(rest.substr(0, end), {.source = path.string()});
    rest.remove_prefix(end + 1);
    const Json* const step = line.find("_step");
    if (step == nullptr || line.contains("_type")) {
      continue;
    }
    for (const JsonMember& member : line.as_object()) {
      if (member.key.starts_with("_")) {
        continue;
      }
      if (member.value.is_number()) {
        curves.add(member.key, step->as_double(), member.value.as_double());
      } else if (member.value.is_string()) {
        // Numbers that are not finite were written as text.
        const std::string& text = member.value.as_string();
        if (text == "NaN" || text.ends_with("Infinity")) {
          curves.add(
              member.key, step->as_double(), number_of_text(text).value_or(0));
        }
      }
    }
  }
}

void read_csv(const fs::path& path, CurveBuilder& curves) {
  const MappedFile file(path, MappedFile::Mode::read_only);
  std::string_view rest = content_of(file);
  std::vector<std::string> columns;
  if (!read_csv_row(rest, columns) || columns.front() != "_step") {
    throw FormatError(str_cat(
        path.string(),
        " is not a metrics file: its first column is not `_step`"));
  }
  std::vector<std::string> cells;
  while (read_csv_row(rest, cells)) {
    const auto step = parse_double(cells.front());
    for (std::size_t i = 2; step && i < cells.size() && i < columns.size();
         ++i) {
      if (const auto value = number_of_text(cells[i])) {
        curves.add(columns[i], *step, *value);
      }
    }
  }
}

// A scalar in a tensor, as newer programs write it: 32-bit floats.
std::optional<double> tensor_number(std::string_view tensor) {
  constexpr int kContent = 4;
  constexpr int kFloats = 5;
  while (const auto field = read_proto_field(tensor)) {
    if ((field->number == kContent || field->number == kFloats) &&
        field->text.size() == sizeof(float)) {
      float value = 0;
      std::memcpy(&value, field->text.data(), sizeof(value));
      return value;
    }
    if (field->number == kFloats && field->text.empty()) {
      return field->single();
    }
  }
  return std::nullopt;
}

void read_summary_value(
    std::string_view message, double step, CurveBuilder& curves) {
  constexpr int kTag = 1;
  constexpr int kSimple = 2;
  constexpr int kTensor = 8;
  std::string tag;
  std::optional<double> number;
  while (const auto field = read_proto_field(message)) {
    if (field->number == kTag) {
      tag = field->text;
    } else if (field->number == kSimple) {
      number = field->single();
    } else if (field->number == kTensor) {
      number = tensor_number(field->text);
    }
  }
  if (number) {
    curves.add(tag, step, *number);
  }
}

void read_event(std::string_view event, CurveBuilder& curves) {
  constexpr int kStep = 2;
  constexpr int kSummary = 5;
  double step = 0;
  std::vector<std::string_view> values;
  while (const auto field = read_proto_field(event)) {
    if (field->number == kStep) {
      step = static_cast<double>(static_cast<std::int64_t>(field->integer));
    } else if (field->number == kSummary) {
      std::string_view summary = field->text;
      while (const auto value = read_proto_field(summary)) {
        values.push_back(value->text);
      }
    }
  }
  for (const std::string_view value : values) {
    read_summary_value(value, step, curves);
  }
}

void read_events(const fs::path& path, CurveBuilder& curves) {
  const MappedFile file(path, MappedFile::Mode::read_only);
  std::string_view rest = content_of(file);
  while (const auto event = read_framed_event(rest)) {
    read_event(*event, curves);
  }
}

bool is_events(const fs::path& path) {
  return path.filename().string().find("tfevents") != std::string::npos;
}

bool read_metrics_file(const fs::path& path, CurveBuilder& curves) {
  if (path.extension() == ".jsonl") {
    read_json_lines(path, curves);
  } else if (path.extension() == ".csv") {
    read_csv(path, curves);
  } else if (is_events(path)) {
    read_events(path, curves);
  } else {
    return false;
  }
  return true;
}

// Files and folders in the order of their names.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder)) {
    entries.push_back(entry.path());
  }
  std::ranges::sort(entries);
  return entries;
}

std::vector<fs::path> metrics_files(const fs::path& folder) {
  for (const char* name : {JsonLinesTracker::kFile, CsvTracker::kFile}) {
    if (fs::is_regular_file(folder / name)) {
      return {folder / name};
    }
  }
  std::vector<fs::path> files;
  for (const fs::path& entry : entries_of(folder)) {
    if (is_events(entry) && fs::is_regular_file(entry)) {
      files.push_back(entry);
    }
  }
  return files;
}

void read_folder(
    const fs::path& folder, int depth, std::vector<RunCurves>& runs) {
  const std::vector<fs::path> files = metrics_files(folder);
  if (!files.empty()) {
    CurveBuilder curves;
    for (const fs::path& file : files) {
      read_metrics_file(file, curves);
    }
    const fs::path name = folder.has_filename() ? folder : folder.parent_path();
    runs.push_back(curves.build(name.filename().string()));
    return;
  }
  // Logging folder, project, run.
  constexpr int kMaxDepth = 3;
  for (const fs::path& entry : entries_of(folder)) {
    if (depth < kMaxDepth && fs::is_directory(entry)) {
      read_folder(entry, depth + 1, runs);
    }
  }
}

}  // namespace

std::vector<RunCurves> read_runs(const fs::path& path) {
  std::vector<RunCurves> runs;
  if (fs::is_directory(path)) {
    read_folder(path, 0, runs);
    if (runs.empty()) {
      throw IoError(
          str_cat("no run in ", path.string()),
          "pass a folder with `metrics.jsonl`, `metrics.csv` or TensorBoard's "
          "event files");
    }
    return runs;
  }
  if (!fs::exists(path)) {
    throw IoError(
        str_cat("there is no file or folder ", path.string()),
        "pass the folder of a run, such as `<logging_dir>/<project>/<run>`");
  }
  CurveBuilder curves;
  if (!read_metrics_file(path, curves)) {
    throw FormatError(
        str_cat(path.string(), " is not a file that a tracker writes"),
        "pass a `.jsonl`, `.csv` or event file, or the folder of a run");
  }
  runs.push_back(curves.build(path.stem().string()));
  return runs;
}

}  // namespace accelerate
