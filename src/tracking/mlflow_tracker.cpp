// SPDX-License-Identifier: Apache-2.0
#include "tracking/mlflow_tracker.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "config/environment.h"
#include "tracking/flatten.h"
#include "tracking/run_files.h"

namespace accelerate {
namespace {

constexpr char kApi[] = "/api/2.0/mlflow/";
constexpr char kArtifacts[] = "/api/2.0/mlflow-artifacts/artifacts/";
constexpr std::string_view kArtifactScheme = "mlflow-artifacts:/";
// Identifies a run whose id was not known yet when a checkpoint was saved.
constexpr char kRunTag[] = "accelerate.run";
// Limits of the server for one request, and for the text of a parameter.
constexpr std::size_t kMaxMetrics = 1000;
constexpr std::size_t kMaxParams = 100;
constexpr std::size_t kMaxTags = 100;
constexpr std::size_t kMaxParamText = 6000;
constexpr std::size_t kMaxTagText = 5000;
// With pauses of 0.5, 1, 2 and 4 s.
constexpr int kAttempts = 5;
constexpr std::chrono::milliseconds kFirstPause{500};

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      const auto byte = static_cast<unsigned char>(
          i + k < bytes.size() ? bytes[i + k] : '\0');
      group = group << 8U | byte;
    }
    for (std::size_t k = 0; k < 4; ++k) {
      text += i + k > bytes.size() ? '=' : kDigits[group >> (18 - 6 * k) & 63U];
    }
  }
  return text;
}

std::string authorization_from(const Environment& environment) {
  if (const auto token = environment.get("MLFLOW_TRACKING_TOKEN")) {
    return "Bearer " + *token;
  }
  const auto user = environment.get("MLFLOW_TRACKING_USERNAME");
  const auto password = environment.get("MLFLOW_TRACKING_PASSWORD");
  return user && password ? "Basic " + base64(*user + ":" + *password) : "";
}

std::string checked_server(std::string uri) {
  if (uri.empty()) {
    throw ArgumentError(
        "tracker `mlflow` needs the address of a server",
        "set MLFLOW_TRACKING_URI to the server's address, such as "
        "http://localhost:5000");
  }
  if (!uri.starts_with("http://") && !uri.starts_with("https://")) {
    throw UnsupportedError(
        str_cat("tracker `mlflow` cannot use the address `", uri, "`"),
        "run `mlflow server`, and use its http address");
  }
  if (uri.find('@') < uri.find('/', uri.find("://") + 3)) {
    throw ArgumentError(
        "the address of the MLflow server contains a password",
        "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD instead");
  }
  while (uri.ends_with('/')) {
    uri.pop_back();
  }
  return uri;
}

std::string shortened(std::string text, std::size_t size) {
  if (text.size() > size) {
    text.resize(size);
    text = valid_utf8(std::move(text));
    text.resize(std::min(text.size(), size));
  }
  return text;
}

std::string text_of_json(const Json& value) {
  return value.is_string() ? value.as_string()
                           : value.dump({.allow_nan = true});
}

Json key_and_value(const std::string& key, const std::string& value) {
  return Json::object({{"key", key}, {"value", value}});
}

// The reply of the server, if it explains an error.
std::string reason_in(const HttpResponse& response) {
  try {
    const Json reply = Json::parse(response.body);
    const Json* const message = reply.find("message");
    return message != nullptr && message->is_string()
               ? str_cat(": ", printable(message->as_string()).substr(0, 300))
               : "";
  } catch (const Error&) {
    return "";  // Not JSON: for example, the page of a proxy.
  }
}

// Removes up to `count` elements from the front of an array.
Json take_front(Json& array, std::size_t count) {
  Json::Array& elements = array.as_array();
  const auto end = elements.begin() + static_cast<std::ptrdiff_t>(
                                          std::min(count, elements.size()));
  Json front{Json::Array(
      std::make_move_iterator(elements.begin()), std::make_move_iterator(end))};
  elements.erase(elements.begin(), end);
  return front;
}

// A key as part of the name of an artifact. MLflow itself replaces `/` in the
// same way, and refuses `#`.
std::string file_key(const std::string& key) {
  return replace_all(mlflow_key(key), "/", "~");
}

}  // namespace

std::string mlflow_key(const std::string& key) {
  std::string result;
  for (const char c : key) {
    const bool allowed =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
        (c >= '0' && c <= '9') ||
        std::string_view("_-./ :").find(c) != std::string_view::npos;
    if (allowed) {
      result += c;
    } else {
      char escaped[8];
      std::snprintf(
          escaped,
          sizeof(escaped),
          "_x%02X_",
          static_cast<unsigned>(static_cast<unsigned char>(c)));
      result += escaped;
    }
  }
  // Names are also paths: MLflow refuses `a//b`, `../a` and `/a`.
  std::vector<std::string> parts = split(result, '/');
  for (std::string& part : parts) {
    if (part.empty() || part == "." || part == "..") {
      part.insert(0, "_");
    }
  }
  return join(parts, "/");
}

void MlflowTracker::start(const TrackerSetup& setup) {
  check_kwargs(setup, kName, {"tracking_uri", "run_name", "run_id"});
  const Environment environment = Environment::of_this_process();
  server_ = checked_server(text_kwarg(
      setup,
      kName,
      "tracking_uri",
      environment.get("MLFLOW_TRACKING_URI").value_or("")));
  http_.authorization = authorization_from(environment);
  project_ = valid_utf8(setup.project);
  run_ = setup.run;
  run_name_ = text_kwarg(setup, kName, "run_name", setup.run);
  if (const std::string id = text_kwarg(setup, kName, "run_id", "");
      !id.empty()) {
    resume(Json::object({{"run_id", id}}), 0);
  }
}

std::string MlflowTracker::run_id() const {
  const std::scoped_lock lock(mutex_);
  return run_id_;
}

void MlflowTracker::set_run_id(const std::string& id) {
  const std::scoped_lock lock(mutex_);
  run_id_ = id;
}

HttpResponse MlflowTracker::send(const HttpRequest& request) {
  std::chrono::milliseconds pause = kFirstPause;
  for (int attempt = 1;; ++attempt, pause *= 2) {
    const bool last = attempt == (reachable_ ? kAttempts : 1);
    try {
      HttpResponse response = send_http(request, http_);
      const bool overloaded = response.status == 429 || response.status >= 500;
      if (!overloaded || last) {
        reachable_ = true;
        return response;
      }
    } catch (const ServerUnreachable&) {
      if (last) {
        reachable_ = false;
        throw;
      }
    }
    std::this_thread::sleep_for(pause);
  }
}

Json MlflowTracker::call(
    const char* method, const std::string& path, const Json& body) {
  HttpRequest request{method, server_ + kApi + path};
  if (!body.is_null()) {
    request.body = body.dump();
  }
  const HttpResponse response = send(request);
  if (response.status != 200) {
    const bool redirect = response.status >= 300 && response.status < 400;
    throw IoError(
        str_cat(
            "the MLflow server answered the request `",
            path.substr(0, path.find('?')),
            "` with status ",
            response.status,
            redirect ? ", a redirect, which is not followed" : "",
            reason_in(response)),
        "check MLFLOW_TRACKING_URI and the password");
  }
  return Json::parse(response.body, {.source = "the reply of MLflow"});
}

std::string MlflowTracker::experiment() {
  const std::string by_name =
      "experiments/get-by-name?experiment_name=" + url_escaped(project_);
  if (send({"GET", server_ + kApi + by_name}).status == 404) {
    const HttpResponse created = send(
        {"POST",
         server_ + kApi + "experiments/create",
         Json::object({{"name", project_}}).dump()});
    if (created.status == 200) {
      return Json::parse(created.body).at("experiment_id").as_string();
    }
    // Another process has created it, or the next request says what is wrong.
  }
  return call("GET", by_name, {})
      .at("experiment")
      .at("experiment_id")
      .as_string();
}

void MlflowTracker::open_run() {
  if (!run_id().empty()) {
    return;
  }
  const Json created = call(
      "POST",
      "runs/create",
      Json::object(
          {{"experiment_id", experiment()},
           {"run_name", run_name_},
           {"tags", Json::array({key_and_value(kRunTag, run_)})},
           {"start_time", now_us() / 1000}}));
  const Json& info = created.at("run").at("info");
  artifact_uri_ = info.at("artifact_uri").as_string();
  set_run_id(info.at("run_id").as_string());
}

// The id of the run in a checkpoint; empty if there is none.
std::string MlflowTracker::saved_run_id(const Json& state) {
  const Json* const id = state.find("run_id");
  if (id != nullptr && !id->as_string().empty()) {
    return id->as_string();
  }
  const Json* const run = state.find("run");
  if (run == nullptr || run->as_string().find('\'') != std::string::npos) {
    return "";
  }
  const Json found = call(
      "POST",
      "runs/search",
      Json::object(
          {{"experiment_ids", Json::array({Json(experiment())})},
           {"filter",
            str_cat("tags.`", kRunTag, "` = '", run->as_string(), "'")},
           {"max_results", 1}}));
  const Json* const runs = found.find("runs");
  return runs == nullptr || runs->size() == 0
             ? ""
             : runs->at(std::size_t{0}).at("info").at("run_id").as_string();
}

void MlflowTracker::resume(const Json& state, std::int64_t /*time_us*/) {
  const std::string id = saved_run_id(state);
  if (id.empty()) {
    return;
  }
  const Json found = call("GET", "runs/get?run_id=" + url_escaped(id), {});
  const Json& run = found.at("run");
  artifact_uri_ = run.at("info").at("artifact_uri").as_string();
  if (const Json* const metrics = run.at("data").find("metrics")) {
    for (const Json& metric : metrics->as_array()) {
      const Json* const step = metric.find("step");
      last_steps_[metric.at("key").as_string()] =
          step != nullptr ? step->as_integer() : 0;
    }
  }
  set_run_id(id);
  params_.clear();  // The server has them, and refuses other values.
  set_status("RUNNING");
}

Json MlflowTracker::state_dict() const {
  return Json::object({{"run_id", run_id()}, {"run", run_}});
}

void MlflowTracker::store_init_configuration(const Json& config) {
  if (!run_id().empty()) {
    return;  // Resumed by `run_id`.
  }
  for (const auto& [key, value] : flatten_json(config)) {
    params_.emplace_back(
        mlflow_key(key), shortened(text_of_json(value), kMaxParamText));
  }
}

void MlflowTracker::add_metric(
    const std::string& key, double value, const TrackedValues& values) {
  const std::string name = mlflow_key(key);
  if (const auto last = last_steps_.find(name);
      last != last_steps_.end() && values.step <= last->second) {
    return;  // The run had logged it before it was resumed.
  }
  metrics_.push_back(Json::object(
      {{"key", name},
       {"value", json_number(value)},
       {"timestamp", values.time_us / 1000},
       {"step", values.step}}));
}

void MlflowTracker::log(const TrackedValues& values) {
  bool has_histogram = false;
  for (const TrackedEntry& entry : values.entries) {
    std::visit(
        [&](const auto& content) {
          using Content = std::decay_t<decltype(content)>;
          if constexpr (std::is_same_v<Content, std::string>) {
            tags_.push_back(key_and_value(
                mlflow_key(entry.key), shortened(content, kMaxTagText)));
          } else if constexpr (std::is_same_v<Content, Histogram>) {
            has_histogram = true;
          } else {
            add_metric(entry.key, static_cast<double>(content), values);
          }
        },
        entry.value);
  }
  if (metrics_.size() >= kMaxMetrics || tags_.size() >= kMaxTags) {
    flush();
  }
  if (has_histogram) {
    throw UnsupportedError("the tracker `mlflow` does not support histograms");
  }
}

void MlflowTracker::send_params() {
  while (!params_.empty()) {
    Json batch = Json::array();
    const std::size_t count = std::min(kMaxParams, params_.size());
    for (std::size_t i = 0; i < count; ++i) {
      batch.push_back(key_and_value(params_[i].first, params_[i].second));
    }
    call(
        "POST",
        "runs/log-batch",
        Json::object({{"run_id", run_id()}, {"params", std::move(batch)}}));
    params_.erase(
        params_.begin(), params_.begin() + static_cast<std::ptrdiff_t>(count));
  }
}

void MlflowTracker::flush() {
  if (metrics_.size() == 0 && tags_.size() == 0) {
    return;
  }
  // What cannot be sent is lost; the run must not need more and more memory.
  Json metrics = std::exchange(metrics_, Json::array());
  Json tags = std::exchange(tags_, Json::array());
  open_run();
  send_params();
  while (metrics.size() > 0 || tags.size() > 0) {
    Json some_tags = take_front(tags, kMaxTags);
    Json some_metrics = take_front(metrics, kMaxMetrics - some_tags.size());
    call(
        "POST",
        "runs/log-batch",
        Json::object(
            {{"run_id", run_id()},
             {"metrics", std::move(some_metrics)},
             {"tags", std::move(some_tags)}}));
  }
}

void MlflowTracker::upload(
    const std::string& path, const std::string& content) {
  if (!artifact_uri_.starts_with(kArtifactScheme)) {
    throw UnsupportedError(str_cat(
        "the MLflow server stores artifacts in `",
        printable(artifact_uri_.substr(0, artifact_uri_.find(':'))),
        "`, to which this tracker cannot upload; images and tables are "
        "dropped"));
  }
  std::string url = server_ + kArtifacts;
  for (const std::string& part :
       split(artifact_uri_.substr(kArtifactScheme.size()) + "/" + path, '/')) {
    url +=
        part.empty() ? "" : (url.ends_with('/') ? "" : "/") + url_escaped(part);
  }
  const HttpResponse response =
      send({"PUT", url, content, "application/octet-stream"});
  if (response.status != 200) {
    throw IoError(str_cat(
        "the MLflow server answered an upload with status ",
        response.status,
        reason_in(response)));
  }
}

// MLflow shows files with such names as images of a run, by step.
void MlflowTracker::log_images(const TrackedImages& images) {
  open_run();
  for (const TrackedImageEntry& entry : images.entries) {
    const std::string key = file_key(entry.key);
    for (std::size_t i = 0; i < entry.images.size(); ++i) {
      upload(
          str_cat(
              "images/",
              key,
              "+step+",
              images.step,
              "+timestamp+",
              images.time_us / 1000,
              "+",
              i,
              ".png"),
          entry.images[i].png);
    }
  }
}

void MlflowTracker::log_table(const TrackedTable& table) {
  open_run();
  Json rows = Json::array();
  for (const auto& row : table.rows) {
    rows.push_back(writable_json(Json(row)));
  }
  const std::string path =
      str_cat(file_key(table.key), "-", table.step, ".json");
  upload(
      path,
      Json::object(
          {{"columns", Json(table.columns)}, {"data", std::move(rows)}})
          .dump());
  // `mlflow.load_table` finds tables by this tag.
  tables_.push_back(Json::object({{"path", path}, {"type", "table"}}));
  tags_.push_back(key_and_value("mlflow.loggedArtifacts", tables_.dump()));
}

void MlflowTracker::set_status(const char* status) {
  Json body = Json::object({{"run_id", run_id()}, {"status", status}});
  if (std::string_view(status) != "RUNNING") {
    body["end_time"] = now_us() / 1000;
  }
  call("POST", "runs/update", body);
}

void MlflowTracker::finish() {
  flush();
  if (!params_.empty()) {
    open_run();
    send_params();
  }
  if (!run_id().empty()) {
    set_status("FINISHED");
  }
}

}  // namespace accelerate
