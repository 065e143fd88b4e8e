// SPDX-License-Identifier: Apache-2.0
// What a step took, beside its goals.
#pragma once

#include <cstdint>
#include <string>

/// One measurement.
struct StepResult {
  std::string work;
  std::string mode;
  double ms = 0.0;
  std::int64_t units = 0;  ///< of a step: rows, or tokens
  double warm_up_s = 0.0;
  double peak_gb = 0.0;
  double loss = 0.0;
};

/// Prints lines as they come: JSON, or a table with the goals that a work has.
class StepReport {
 public:
  explicit StepReport(bool json) : json_(json) {}

  void add(const StepResult& result);

 private:
  bool json_;
  bool has_head_ = false;
};
