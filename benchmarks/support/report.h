// SPDX-License-Identifier: Apache-2.0
// Measures and reports benchmark results.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace accelerate::benchmarks {

/// The times in seconds that this library and a baseline take for the same
/// work.
struct Comparison {
  std::string name;
  double ours = 0;
  double baseline = 0;
};

double median(std::vector<double> values);

/// Prints comparisons as a table, or with `--json` as one JSON object per line:
/// `case`, `ours`, `baseline`, `ratio` = ours / baseline.
class Report {
 public:
  explicit Report(bool json);
  void add(const Comparison& comparison) const;
  /// Prints a number without a baseline: `case`, `value`, `unit`.
  void measure(
      const std::string& name, double value, const std::string& unit) const;
  /// Prints `text` as a line, unless the output is JSON.
  void note(const std::string& text) const;

 private:
  bool json_;
};

/// Calls `body` `repeats` times. Returns the median time of a call in seconds.
double seconds_of(int repeats, const std::function<void()>& body);

}  // namespace accelerate::benchmarks
