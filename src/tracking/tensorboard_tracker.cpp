// SPDX-License-Identifier: Apache-2.0
#include "tracking/tensorboard_tracker.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <type_traits>
#include <utility>

#include <unistd.h>

#include "base/files.h"
#include "base/mapped_file.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "tracking/event_file.h"
#include "tracking/flatten.h"
#include "tracking/run_files.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

// Field numbers of TensorBoard's messages, as in its event.proto,
// summary.proto, tensor.proto and plugins/hparams/api.proto.
constexpr int kEventTime = 1;
constexpr int kEventStep = 2;
constexpr int kEventVersion = 3;
constexpr int kEventSummary = 5;
constexpr int kSummaryValue = 1;
constexpr int kValueTag = 1;
constexpr int kValueSimple = 2;
constexpr int kValueHistogram = 5;
constexpr int kValueTensor = 8;
constexpr int kValueMetadata = 9;
constexpr int kMetadataPlugin = 1;
constexpr int kMetadataClass = 4;
constexpr int kPluginName = 1;
constexpr int kPluginContent = 2;
constexpr int kTensorType = 1;
constexpr int kTensorShape = 2;
constexpr int kTensorText = 8;
constexpr int kDataClassTensor = 2;
constexpr int kDataClassBlobs = 3;
constexpr int kDtypeString = 7;
constexpr int kHparamsVersion = 1;
constexpr int kHparamsExperiment = 2;
constexpr int kHparamsSessionStart = 3;
constexpr int kHparamsSessionEnd = 4;

constexpr char kTfevents[] = ".tfevents.";

ProtoMessage scalar_value(const std::string& tag, double number) {
  return ProtoMessage()
      .text(kValueTag, tag)
      .single(kValueSimple, static_cast<float>(number));
}

ProtoMessage text_tensor(const std::vector<std::string>& texts) {
  const auto size = static_cast<std::int64_t>(texts.size());
  ProtoMessage tensor;
  tensor.integer(kTensorType, kDtypeString)
      .message(
          kTensorShape,
          ProtoMessage().message(2, ProtoMessage().integer(1, size)));
  for (const std::string& text : texts) {
    tensor.text(kTensorText, text);
  }
  return tensor;
}

ProtoMessage histogram_message(const Histogram& histogram) {
  return ProtoMessage()
      .real(1, histogram.min)
      .real(2, histogram.max)
      .real(3, histogram.total())
      .real(4, histogram.sum)
      .real(5, histogram.sum_squares)
      .reals(6, histogram.limits)
      .reals(7, histogram.counts);
}

// As `google.protobuf.Value`, which has numbers, texts and booleans.
ProtoMessage hparam_value(const Json& value) {
  if (value.is_bool()) {
    return ProtoMessage().integer(4, value.as_bool() ? 1 : 0);
  }
  if (value.is_number()) {
    return ProtoMessage().real(2, value.as_double());
  }
  return ProtoMessage().text(
      3,
      value.is_string() ? value.as_string() : value.dump({.allow_nan = true}));
}

int hparam_type(const Json& value) {
  return value.is_bool() ? 2 : value.is_number() ? 3 : 1;
}

// JSON texts are also YAML, except for numbers that are not finite.
std::string yaml_line(const std::string& key, const Json& value) {
  std::string text = value.dump({.allow_nan = true});
  for (const auto& [json, yaml] :
       {std::pair("NaN", ".nan"),
        std::pair("Infinity", ".inf"),
        std::pair("-Infinity", "-.inf")}) {
    text = text == json ? yaml : text;
  }
  return str_cat(Json(key).dump(), ": ", text, "\n");
}

// A table in Markdown, which the text plugin shows as a table.
std::string markdown_table(const TrackedTable& table) {
  const auto row_of = [](const std::vector<std::string>& cells) {
    return str_cat("| ", join(cells, " | "), " |\n");
  };
  const auto cell_of = [](const std::string& text) {
    return replace_all(replace_all(text, "|", "\\|"), "\n", "<br>");
  };
  std::vector<std::string> cells;
  for (const std::string& column : table.columns) {
    cells.push_back(cell_of(column));
  }
  std::string text = row_of(cells);
  text += row_of(std::vector<std::string>(table.columns.size(), "---"));
  for (const auto& row : table.rows) {
    cells.clear();
    for (const Json& value : row) {
      cells.push_back(cell_of(
          value.is_string() ? value.as_string()
                            : value.dump({.allow_nan = true})));
    }
    text += row_of(cells);
  }
  return text;
}

bool is_event_file(const fs::path& path) {
  return path.filename().string().find(kTfevents) != std::string::npos;
}

void remove_newer_events(const fs::path& path, std::int64_t keep_until_us) {
  std::size_t kept = 0;
  std::size_t size = 0;
  {
    const MappedFile file(path, MappedFile::Mode::read_only);
    std::string_view rest = file.text();
    size = file.size();
    while (const auto event = read_framed_event(rest)) {
      if (event_time_us(*event) > keep_until_us) {
        break;
      }
      kept = size - rest.size();
    }
  }
  if (kept == 0) {
    fs::remove(path);
  } else if (kept < size) {
    fs::resize_file(path, kept);
  }
}

// The seconds in the name of an event file.
std::int64_t seconds_in_name(const fs::path& path) {
  const std::string name = path.filename().string();
  const auto begin = name.find(kTfevents) + std::string_view(kTfevents).size();
  return parse_integer(name.substr(begin, name.find('.', begin) - begin))
      .value_or(0);
}

// TensorBoard reads the files of a run in the order of their names, so the new
// name must come after the names of `before`.
std::string event_file_name(
    const std::vector<fs::path>& before, const std::string& suffix) {
  char machine[256] = {};
  if (::gethostname(machine, sizeof(machine) - 1) != 0) {
    std::snprintf(machine, sizeof(machine), "localhost");
  }
  std::int64_t seconds = now_us() / 1000000;
  for (const fs::path& path : before) {
    seconds = std::max(seconds, seconds_in_name(path) + 1);
  }
  char digits[32];
  std::snprintf(
      digits, sizeof(digits), "%010lld", static_cast<long long>(seconds));
  return str_cat(
      "events.out",
      kTfevents,
      digits,
      ".",
      file_name_of(machine),
      ".",
      ::getpid(),
      ".0",
      suffix);
}

double event_seconds(std::int64_t time_us) {
  return static_cast<double>(time_us) / 1e6;
}

}  // namespace

void TensorBoardTracker::open(
    const fs::path& folder, std::int64_t keep_until_us) {
  std::error_code ignored;
  fs::create_directories(folder, ignored);
  std::vector<fs::path> before;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (is_event_file(entry.path()) && entry.is_regular_file()) {
      before.push_back(entry.path());
    }
  }
  for (const fs::path& path : before) {
    if (keep_until_us != INT64_MAX && fs::file_size(path) > 0) {
      remove_newer_events(path, keep_until_us);
    }
  }
  const std::string suffix = text_kwarg(setup(), kName, "filename_suffix", "");
  file_ = AppendFile(
      folder / event_file_name(
                   before, suffix.empty() ? "" : file_name_of("-" + suffix)));
  described_.clear();
  file_.append(framed_event(ProtoMessage()
                                .real(kEventTime, event_seconds(opened_us()))
                                .text(kEventVersion, "brain.Event:2")
                                .bytes()));
  file_.flush();
}

void TensorBoardTracker::discard() {
  remove_from(file_, 0);
  if (has_config_) {
    fs::remove(folder() / "hparams.yml");
  }
}

void TensorBoardTracker::finish() {
  if (has_config_) {
    constexpr int kSuccess = 1;
    write_hparams(
        now_us(),
        kHparamsSessionEnd,
        ProtoMessage().integer(1, kSuccess).real(2, event_seconds(now_us())),
        "_hparams_/session_end_info");
  }
  file_.flush();
}

void TensorBoardTracker::write_event(
    std::int64_t time_us, std::int64_t step, const ProtoMessage& summary) {
  file_.append(framed_event(ProtoMessage()
                                .real(kEventTime, event_seconds(time_us))
                                .integer(kEventStep, step)
                                .message(kEventSummary, summary)
                                .bytes()));
}

void TensorBoardTracker::describe(
    ProtoMessage& value, const std::string& tag, const char* plugin) {
  if (!described_.insert(tag).second) {
    return;
  }
  const bool blobs = std::string_view(plugin) == "images";
  value.message(
      kValueMetadata,
      ProtoMessage()
          .message(kMetadataPlugin, ProtoMessage().text(kPluginName, plugin))
          .integer(kMetadataClass, blobs ? kDataClassBlobs : kDataClassTensor));
}

void TensorBoardTracker::log(const TrackedValues& values) {
  ProtoMessage summary;
  for (const TrackedEntry& entry : values.entries) {
    const std::string tag = entry.key;
    summary.message(
        kSummaryValue,
        std::visit(
            [&](const auto& content) {
              using Content = std::decay_t<decltype(content)>;
              if constexpr (std::is_same_v<Content, std::string>) {
                ProtoMessage value = ProtoMessage().text(kValueTag, tag);
                value.message(kValueTensor, text_tensor({content}));
                describe(value, tag, "text");
                return value;
              } else if constexpr (std::is_same_v<Content, Histogram>) {
                return ProtoMessage()
                    .text(kValueTag, tag)
                    .message(kValueHistogram, histogram_message(content));
              } else {
                return scalar_value(tag, static_cast<double>(content));
              }
            },
            entry.value));
  }
  write_event(values.time_us, values.step, summary);
}

void TensorBoardTracker::log_images(const TrackedImages& images) {
  ProtoMessage summary;
  for (const TrackedImageEntry& entry : images.entries) {
    if (entry.images.empty()) {
      continue;
    }
    const std::string tag = entry.key;
    // The width and height of the first image, then the images.
    std::vector<std::string> texts{
        std::to_string(entry.images.front().width),
        std::to_string(entry.images.front().height)};
    for (const EncodedImage& image : entry.images) {
      texts.push_back(image.png);
    }
    ProtoMessage value = ProtoMessage().text(kValueTag, tag);
    value.message(kValueTensor, text_tensor(texts));
    describe(value, tag, "images");
    summary.message(kSummaryValue, value);
  }
  write_event(images.time_us, images.step, summary);
}

void TensorBoardTracker::log_table(const TrackedTable& table) {
  const std::string tag = table.key;
  ProtoMessage value = ProtoMessage().text(kValueTag, tag);
  value.message(kValueTensor, text_tensor({markdown_table(table)}));
  describe(value, tag, "text");
  write_event(
      table.time_us, table.step, ProtoMessage().message(kSummaryValue, value));
}

void TensorBoardTracker::write_hparams(
    std::int64_t time_us,
    int field,
    const ProtoMessage& data,
    const char* tag) {
  const ProtoMessage content =
      ProtoMessage().integer(kHparamsVersion, 0).message(field, data);
  const ProtoMessage value =
      ProtoMessage()
          .text(kValueTag, tag)
          .message(
              kValueMetadata,
              ProtoMessage().message(
                  kMetadataPlugin,
                  ProtoMessage()
                      .text(kPluginName, "hparams")
                      .message(kPluginContent, content)));
  write_event(time_us, 0, ProtoMessage().message(kSummaryValue, value));
}

void TensorBoardTracker::write_config(const Json& config) {
  ProtoMessage experiment;
  ProtoMessage session;
  std::string yaml;
  for (const auto& [key, value] : flatten_json(config)) {
    experiment.message(
        4, ProtoMessage().text(1, key).integer(4, hparam_type(value)));
    session.message(
        1, ProtoMessage().text(1, key).message(2, hparam_value(value)));
    yaml += yaml_line(key, value);
  }
  session.text(4, folder().filename().string())
      .real(5, event_seconds(opened_us()));
  write_hparams(
      opened_us(), kHparamsExperiment, experiment, "_hparams_/experiment");
  write_hparams(
      opened_us(),
      kHparamsSessionStart,
      session,
      "_hparams_/session_start_info");
  write_file(folder() / "hparams.yml", yaml);
  has_config_ = true;
}

}  // namespace accelerate
