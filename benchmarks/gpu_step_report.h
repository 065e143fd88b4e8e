// SPDX-License-Identifier: Apache-2.0
// Prints the measurements of training steps next to their goals.
#pragma once

#include <cstdint>
#include <string>

/// The measurements for one workload.
struct StepResult {
  std::string work;
  std::string mode;
  double ms = 0.0;
  std::int64_t units = 0;  ///< Samples or tokens per step.
  double warm_up_s = 0.0;
  double peak_gb = 0.0;
  double loss = 0.0;
};

/// Prints each result when it is added: as a JSON object, or as a table row
/// that also shows the goals of the workload.
class StepReport {
 public:
  explicit StepReport(bool json) : json_(json) {}

  void add(const StepResult& result);

 private:
  bool json_;
  bool has_header_ = false;
};
