// SPDX-License-Identifier: Apache-2.0
// Writes the values of a run as TensorBoard's event files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "tracking/append_file.h"
#include "tracking/file_tracker.h"
#include "tracking/protobuf.h"

namespace accelerate {

/// Writes an event file in the folder of the run: numbers as scalars, and
/// texts, histograms, images, tables (as text) and the configuration (as
/// hyperparameters, also in `hparams.yml`). TensorBoard keeps scalars as 32-bit
/// floats. Option `filename_suffix` is added to the name of the file.
class TensorBoardTracker : public FileTracker {
 public:
  static constexpr char kName[] = "tensorboard";

  std::string name() const override { return kName; }
  void log(const TrackedValues& values) override;
  void log_images(const TrackedImages& images) override;
  void log_table(const TrackedTable& table) override;
  void flush() override { file_.flush(); }
  void finish() override;

 protected:
  void open(
      const std::filesystem::path& folder, std::int64_t keep_until_us) override;
  void write_config(const Json& config) override;
  void discard() override;
  std::vector<std::string> more_kwargs() const override {
    return {"filename_suffix"};
  }

 private:
  void write_event(
      std::int64_t time_us, std::int64_t step, const ProtoMessage& summary);
  void write_hparams(
      std::int64_t time_us,
      int field,
      const ProtoMessage& data,
      const char* tag);
  /// Adds the metadata of `tag` to `value` if this is the first value with this
  /// tag. `plugin` is the TensorBoard plugin that displays the tag.
  void describe(
      ProtoMessage& value, const std::string& tag, const char* plugin);

  AppendFile file_;
  std::set<std::string> described_;
  bool has_config_ = false;
};

}  // namespace accelerate
