// SPDX-License-Identifier: Apache-2.0
#include "tracking/tracker_set.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <mutex>
#include <utility>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "tracking/run_files.h"

namespace accelerate {
namespace {

/// A call that every tracker must get, however slow it is.
class RequiredCall : public TrackerRecord {
 public:
  explicit RequiredCall(std::function<void(GeneralTracker&)> call)
      : call_(std::move(call)) {}

  void deliver(GeneralTracker& tracker) override { call_(tracker); }
  std::size_t bytes() const override { return 0; }
  bool may_be_dropped() const override { return false; }

 private:
  std::function<void(GeneralTracker&)> call_;
};

// The names that the trackers' own columns have.
void check_key(const std::string& key) {
  if (key.empty() || (key.front() == '_' &&
                      (key == "_step" || key == "_time" || key == "_type"))) {
    throw ArgumentError(
        str_cat("`log` got a value named `", key, "`"),
        "choose another name; trackers use `_step`, `_time` and `_type` "
        "themselves");
  }
}

void check_keys(const auto& entries) {
  for (const auto& entry : entries) {
    check_key(entry.key);
  }
}

Json valid_json(const Json& value) {
  if (value.is_string()) {
    return Json(valid_utf8(value.as_string()));
  }
  if (value.is_array()) {
    Json result = Json::array();
    for (const Json& element : value.as_array()) {
      result.push_back(valid_json(element));
    }
    return result;
  }
  if (value.is_object()) {
    Json result = Json::object();
    for (const JsonMember& member : value.as_object()) {
      result[valid_utf8(member.key)] = valid_json(member.value);
    }
    return result;
  }
  return value;
}

void make_valid(TrackedValues& values) {
  for (TrackedEntry& entry : values.entries) {
    entry.key = valid_utf8(std::move(entry.key));
    if (auto* const text = std::get_if<std::string>(&entry.value)) {
      *text = valid_utf8(std::move(*text));
    }
  }
}

std::optional<std::int64_t> integer_member(const Json& state, const char* key) {
  const Json* const value = state.find(key);
  return value != nullptr && value->is_integer()
             ? std::optional(value->as_integer())
             : std::nullopt;
}

}  // namespace

/// Warns once if the steps of a key go back.
class TrackerSet::StepOrder {
 public:
  void check(const TrackedValues& values) {
    const std::scoped_lock lock(mutex_);
    for (const TrackedEntry& entry : values.entries) {
      std::int64_t& last =
          last_steps_.try_emplace(entry.key, values.step).first->second;
      if (values.step < last && !std::exchange(warned_, true)) {
        std::cerr << str_cat(
                         "warning: `",
                         printable(entry.key),
                         "` was logged for step ",
                         values.step,
                         " after step ",
                         last,
                         "; trackers receive values in the order of the calls, "
                         "so a chart may go backwards\n")
                  << std::flush;
      }
      last = values.step;
    }
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::int64_t> last_steps_;
  bool warned_ = false;
};

TrackerSet::TrackerSet(const TrackerLimits& limits)
    : limits_(limits), order_(std::make_shared<StepOrder>()) {
}

TrackerSet::~TrackerSet() {
  finish();
}

void TrackerSet::add(
    std::shared_ptr<GeneralTracker> tracker, const TrackerSetup& setup) {
  if (run_.empty()) {
    run_ = setup.run.empty() ? new_run_name() : setup.run;
  }
  TrackerSetup named = setup;
  named.run = run_;
  tracker->start(named);
  threads_.push_back(
      std::make_unique<TrackerThread>(std::move(tracker), limits_));
  resume(*threads_.back());
}

std::shared_ptr<GeneralTracker> TrackerSet::find(
    const std::string& name) const {
  for (const auto& thread : threads_) {
    if (thread->name() == name) {
      return thread->shared_tracker();
    }
  }
  return nullptr;
}

std::vector<std::string> TrackerSet::names() const {
  std::vector<std::string> names;
  for (const auto& thread : threads_) {
    names.push_back(thread->name());
  }
  return names;
}

void TrackerSet::add_to_all(const std::shared_ptr<TrackerRecord>& record) {
  for (const auto& thread : threads_) {
    thread->add(record);
  }
}

void TrackerSet::store_init_configuration(const Json& config) {
  add_to_all(std::make_shared<RequiredCall>(
      [config = valid_json(config)](GeneralTracker& tracker) {
        tracker.store_init_configuration(config);
      }));
}

template <typename Values>
void TrackerSet::stamp(Values& values, std::optional<std::int64_t> step) {
  values.step = step.value_or(next_step_);
  next_step_ = values.step + 1;
  last_time_us_ = std::max(now_us(), last_time_us_ + 1);
  values.time_us = last_time_us_;
  logged_ = true;
}

void TrackerSet::log(
    TrackedValues values,
    std::optional<std::int64_t> step,
    std::size_t bytes,
    std::function<void(TrackedValues&)> complete) {
  check_keys(values.entries);
  stamp(values, step);
  add_to_all(std::make_shared<LoggedValues>(
      std::move(values),
      bytes,
      [complete = std::move(complete), order = order_](TrackedValues& logged) {
        if (complete) {
          complete(logged);
        }
        make_valid(logged);
        order->check(logged);
      }));
}

void TrackerSet::log_images(
    TrackedImages images,
    std::optional<std::int64_t> step,
    std::size_t bytes,
    std::function<void(TrackedImages&)> complete) {
  check_keys(images.entries);
  stamp(images, step);
  add_to_all(std::make_shared<LoggedImages>(
      std::move(images),
      bytes,
      [complete = std::move(complete)](TrackedImages& logged) {
        if (complete) {
          complete(logged);
        }
        for (TrackedImageEntry& entry : logged.entries) {
          entry.key = valid_utf8(std::move(entry.key));
        }
      }));
}

void TrackerSet::log_table(
    TrackedTable table, std::optional<std::int64_t> step, std::size_t bytes) {
  check_key(table.key);
  for (const auto& row : table.rows) {
    if (row.size() != table.columns.size()) {
      throw ArgumentError(
          str_cat(
              "table `",
              table.key,
              "` has ",
              table.columns.size(),
              " columns, but a row with ",
              row.size(),
              " values"),
          "pass one value per column in each row");
    }
  }
  stamp(table, step);
  add_to_all(std::make_shared<LoggedTable>(
      std::move(table), bytes, [](TrackedTable& logged) {
        logged.key = valid_utf8(std::move(logged.key));
        for (std::string& column : logged.columns) {
          column = valid_utf8(std::move(column));
        }
        for (auto& row : logged.rows) {
          for (Json& value : row) {
            value = valid_json(value);
          }
        }
      }));
}

Json TrackerSet::state_dict() const {
  Json states = Json::object();
  for (const auto& thread : threads_) {
    states[thread->name()] = thread->tracker().state_dict();
  }
  return Json::object(
      {{"next_step", next_step_},
       {"time_us", last_time_us_},
       {"trackers", std::move(states)}});
}

void TrackerSet::load_state_dict(const Json& state) {
  if (logged_ || !state.is_object()) {
    return;
  }
  loaded_ = state;
  next_step_ = integer_member(state, "next_step").value_or(0);
  last_time_us_ = integer_member(state, "time_us").value_or(0);
  for (const auto& thread : threads_) {
    resume(*thread);
  }
}

void TrackerSet::resume(TrackerThread& thread) {
  const Json* const trackers =
      loaded_ && !logged_ ? loaded_->find("trackers") : nullptr;
  const Json* const state =
      trackers != nullptr ? trackers->find(thread.name()) : nullptr;
  if (state == nullptr) {
    return;
  }
  thread.add(std::make_shared<RequiredCall>(
      [state = *state, time_us = last_time_us_](GeneralTracker& tracker) {
        tracker.resume(state, time_us);
      }));
}

void TrackerSet::finish() {
  for (const auto& thread : threads_) {
    thread->finish();
  }
  threads_.clear();
}

}  // namespace accelerate
