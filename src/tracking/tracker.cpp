// SPDX-License-Identifier: Apache-2.0
#include "accelerate/tracker.h"

#include <numeric>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate {

double Histogram::total() const {
  return std::accumulate(counts.begin(), counts.end(), 0.0);
}

GeneralTracker::~GeneralTracker() = default;

bool GeneralTracker::requires_logging_directory() const {
  return false;
}

bool GeneralTracker::main_process_only() const {
  return true;
}

void GeneralTracker::start(const TrackerSetup& /*setup*/) {
}

void GeneralTracker::store_init_configuration(const Json& /*config*/) {
}

void GeneralTracker::log_images(const TrackedImages& /*images*/) {
  throw UnsupportedError(
      str_cat("the tracker `", name(), "` does not support images"));
}

void GeneralTracker::log_table(const TrackedTable& /*table*/) {
  throw UnsupportedError(
      str_cat("the tracker `", name(), "` does not support tables"));
}

void GeneralTracker::flush() {
}

void GeneralTracker::finish() {
}

std::chrono::milliseconds GeneralTracker::finish_timeout() const {
  return {};
}

Json GeneralTracker::state_dict() const {
  return {};
}

void GeneralTracker::resume(const Json& /*state*/, std::int64_t /*time_us*/) {
}

}  // namespace accelerate
