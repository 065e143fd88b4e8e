// SPDX-License-Identifier: Apache-2.0
// Sends the values of a run to an MLflow server.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/tracker.h"
#include "tracking/http.h"

namespace accelerate {

/// Uses MLflow's REST API: the project is the experiment; numbers are metrics,
/// texts are tags, the configuration becomes parameters, and images and tables
/// become artifacts. The server is `tracking_uri` or MLFLOW_TRACKING_URI. The
/// credentials come from MLFLOW_TRACKING_TOKEN, or else from
/// MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or else from
/// `.netrc`.
///
/// The run is created when the first values are sent. A request that fails
/// because of the connection is repeated for a few seconds, if the server was
/// reachable before.
class MlflowTracker : public GeneralTracker {
 public:
  static constexpr char kName[] = "mlflow";

  std::string name() const override { return kName; }
  void start(const TrackerSetup& setup) override;
  void store_init_configuration(const Json& config) override;
  void log(const TrackedValues& values) override;
  void log_images(const TrackedImages& images) override;
  void log_table(const TrackedTable& table) override;
  void flush() override;
  void finish() override;
  Json state_dict() const override;
  void resume(const Json& state, std::int64_t time_us) override;

 private:
  /// Sends a request, and returns the reply. Throws `IoError` unless the status
  /// is 200.
  Json call(const char* method, const std::string& path, const Json& body);
  HttpResponse send(const HttpRequest& request);
  void open_run();
  std::string experiment();
  std::string saved_run_id(const Json& state);
  void add_metric(
      const std::string& key, double value, const TrackedValues& values);
  void send_params();
  void upload(const std::string& path, const std::string& content);
  void set_status(const char* status);
  std::string run_id() const;
  void set_run_id(const std::string& id);

  std::string server_;
  std::string project_;
  std::string run_;  // Constant after `start`.
  std::string run_name_;
  HttpOptions http_;
  bool reachable_ = false;
  std::string artifact_uri_;
  // What the next `flush` sends.
  Json metrics_ = Json::array();
  Json tags_ = Json::array();
  std::vector<std::pair<std::string, std::string>> params_;
  Json tables_ = Json::array();
  // After `resume`: the last step of each metric that the server has.
  std::map<std::string, std::int64_t> last_steps_;

  // Guards `run_id_`, which the training thread also reads.
  mutable std::mutex mutex_;
  std::string run_id_;
};

/// Returns `key` as the name of a metric. Replaces each character that MLflow
/// forbids with its code: `(` becomes `_x28_`.
std::string mlflow_key(const std::string& key);

}  // namespace accelerate
