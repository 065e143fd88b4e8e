// SPDX-License-Identifier: Apache-2.0
// Writes the values of a run as DVCLive's files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/tracker.h"
#include "tracking/dvclive_files.h"

namespace accelerate {

/// Writes the folder `dvclive`, or the folder in option `dir`: a table per key
/// in `plots/metrics`, the last values in `metrics.json`, the configuration in
/// `params.yaml` and images in `plots/images`. Describes these files for DVC in
/// `dvc.yaml`, or in the file that option `dvcyaml` names; if that option is
/// false, writes no such description.
///
/// The folder holds one run. The first call to `log` removes the files of the
/// previous run, unless a checkpoint continues that run; see NOTE [Resumed
/// runs]. Files are open only while they are written, so that a run may have
/// any number of keys.
class DvcliveTracker : public GeneralTracker {
 public:
  static constexpr char kName[] = "dvclive";

  std::string name() const override { return kName; }
  void start(const TrackerSetup& setup) override;
  void store_init_configuration(const Json& config) override;
  void log(const TrackedValues& values) override;
  void log_images(const TrackedImages& images) override;
  void flush() override;
  void finish() override;
  Json state_dict() const override;
  void resume(const Json& state, std::int64_t time_us) override;

 private:
  using Histories = std::map<std::filesystem::path, DvcHistory>;

  std::filesystem::path metrics_folder() const;
  std::filesystem::path images_folder() const;
  std::string run() const;
  /// Begins this run in the folder, if that has not happened yet.
  void begin();
  void write_params();
  void write_histories();
  void write_summary();
  void write_dvc_yaml();
  /// Returns the text to write to `dvc.yaml` when files of the given kinds
  /// exist.
  std::string dvc_yaml_text(bool params, bool tables, bool images) const;
  bool is_own_dvc_yaml(const std::string& text) const;
  /// Reads `metrics.json`, and replaces its values with the last values in the
  /// tables.
  void read_summary(const Histories& histories);

  std::filesystem::path folder_;
  std::filesystem::path dvc_yaml_;  // Empty: not written.
  std::optional<Json> config_;
  bool begun_ = false;
  bool changed_ = false;
  bool warned_ = false;
  std::string described_;  // The last content of `dvc.yaml`.
  std::map<std::string, std::vector<std::string>> rows_;  // By key.
  Json summary_ = Json::object();

  // Guards `run_`: the training thread may read it while `resume` changes it.
  mutable std::mutex mutex_;
  std::string run_;
};

}  // namespace accelerate
