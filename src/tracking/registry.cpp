// SPDX-License-Identifier: Apache-2.0
#include "tracking/registry.h"

#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "tracking/csv_tracker.h"
#include "tracking/dvclive_tracker.h"
#include "tracking/json_lines_tracker.h"
#include "tracking/mlflow_tracker.h"
#include "tracking/python_tracker.h"
#include "tracking/tensorboard_tracker.h"
#include "tracking/trackio_tracker.h"
#include "tracking/wandb_tracker.h"

namespace accelerate {
namespace {

using MakeTracker = std::function<std::shared_ptr<GeneralTracker>()>;

template <typename Tracker>
std::pair<std::string, MakeTracker> built_in() {
  return {Tracker::kName, [] { return std::make_shared<Tracker>(); }};
}

const std::map<std::string, MakeTracker>& native_trackers() {
  static const std::map<std::string, MakeTracker> trackers{
      built_in<CsvTracker>(),
      built_in<DvcliveTracker>(),
      built_in<JsonLinesTracker>(),
      built_in<MlflowTracker>(),
      built_in<TensorBoardTracker>(),
      built_in<TrackioTracker>(),
      built_in<WandbTracker>()};
  return trackers;
}

std::map<std::string, MakeTracker> all_built_in_trackers() {
  std::map<std::string, MakeTracker> trackers = native_trackers();
  for (const std::string& name : python_service_names()) {
    trackers[name] = [name] { return std::make_shared<PythonTracker>(name); };
  }
  return trackers;
}

const std::map<std::string, MakeTracker>& built_in_trackers() {
  static const std::map<std::string, MakeTracker> trackers =
      all_built_in_trackers();
  return trackers;
}

struct RegisteredTrackers {
  std::mutex mutex;
  std::map<std::string, MakeTracker> makers;
};

RegisteredTrackers& registered_trackers() {
  static RegisteredTrackers trackers;
  return trackers;
}

std::string quoted_names() {
  std::vector<std::string> names = tracker_names();
  for (std::string& name : names) {
    name = str_cat("`", name, "`");
  }
  return join(names, ", ");
}

[[noreturn]] void throw_unknown_tracker(const std::string& name) {
  const std::string similar = did_you_mean(name, tracker_names());
  throw ArgumentError(
      str_cat("`log_with` names an unknown tracker: `", printable(name), "`"),
      str_cat(
          similar,
          similar.empty() ? "" : " ",
          "use one of ",
          quoted_names(),
          ", or `all`; `module:Class` names a tracker class in Python"));
}

}  // namespace

std::vector<std::string> file_tracker_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : native_trackers()) {
    if (make()->requires_logging_directory()) {
      names.push_back(name);
    }
  }
  return names;
}

std::vector<std::string> tracker_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : built_in_trackers()) {
    names.push_back(name);
  }
  RegisteredTrackers& registered = registered_trackers();
  const std::scoped_lock lock(registered.mutex);
  for (const auto& [name, make] : registered.makers) {
    names.push_back(name);
  }
  return names;
}

std::shared_ptr<GeneralTracker> make_tracker(const std::string& name) {
  if (const auto found = built_in_trackers().find(name);
      found != built_in_trackers().end()) {
    return found->second();
  }
  MakeTracker make;
  {
    RegisteredTrackers& registered = registered_trackers();
    const std::scoped_lock lock(registered.mutex);
    if (const auto found = registered.makers.find(name);
        found != registered.makers.end()) {
      make = found->second;
    }
  }
  if (!make && names_python_class(name)) {
    return std::make_shared<PythonTracker>(name);
  }
  if (!make) {
    throw_unknown_tracker(name);
  }
  return make();
}

void register_tracker_class(
    const std::string& name,
    std::function<std::shared_ptr<GeneralTracker>()> make) {
  RegisteredTrackers& registered = registered_trackers();
  if (name.empty() || name == "all" || built_in_trackers().contains(name)) {
    throw ArgumentError(
        str_cat("a tracker class cannot have the name `", name, "`"),
        "choose a name that is not empty, not `all`, and not the name of a "
        "built-in tracker");
  }
  const std::scoped_lock lock(registered.mutex);
  if (!registered.makers.emplace(name, std::move(make)).second) {
    throw ArgumentError(
        str_cat("a tracker class named `", name, "` is already registered"),
        "register each class once");
  }
}

}  // namespace accelerate
