// SPDX-License-Identifier: Apache-2.0
// How benchmarks measure and say what they measured.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace accelerate::benchmarks {

/// One comparison: the same work, ours and the peer's, in seconds.
struct Comparison {
  std::string name;
  double ours = 0;
  double peer = 0;
};

double median(std::vector<double> values);

/// Prints comparisons as a table, or with `--json` as one object a line:
/// `case`, `ours`, `peer`, `ratio` = ours / peer.
class Report {
 public:
  explicit Report(bool json);
  void add(const Comparison& comparison) const;
  /// A number that has no peer: `case`, `value`, `unit`.
  void measure(
      const std::string& name, double value, const std::string& unit) const;
  /// A line for people only.
  void note(const std::string& text) const;

 private:
  bool json_;
};

/// Seconds that one call of `body` takes: the median over `repeats`.
double seconds_of(int repeats, const std::function<void()>& body);

}  // namespace accelerate::benchmarks
