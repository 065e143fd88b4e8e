// SPDX-License-Identifier: Apache-2.0
#include "support/report.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace accelerate::benchmarks {
namespace {

std::string human(double seconds) {
  char text[32];
  if (seconds < 1e-3) {
    std::snprintf(text, sizeof text, "%.1f µs", seconds * 1e6);
  } else if (seconds < 1) {
    std::snprintf(text, sizeof text, "%.2f ms", seconds * 1e3);
  } else {
    std::snprintf(text, sizeof text, "%.2f s", seconds);
  }
  return text;
}

}  // namespace

double median(std::vector<double> values) {
  const auto middle =
      values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Report::Report(bool json) : json_(json) {
  if (!json_) {
    std::printf("%-44s %12s %12s %8s\n", "case", "ours", "baseline", "ratio");
  }
}

void Report::add(const Comparison& comparison) const {
  const double ratio = comparison.ours / comparison.baseline;
  if (json_) {
    std::printf(
        "{\"case\": \"%s\", \"ours\": %.9f, \"baseline\": %.9f, "
        "\"ratio\": %.4f}\n",
        comparison.name.c_str(),
        comparison.ours,
        comparison.baseline,
        ratio);
  } else {
    std::printf(
        "%-44s %12s %12s %8.3f\n",
        comparison.name.c_str(),
        human(comparison.ours).c_str(),
        human(comparison.baseline).c_str(),
        ratio);
  }
  std::fflush(stdout);
}

void Report::measure(
    const std::string& name, double value, const std::string& unit) const {
  std::printf(
      json_ ? "{\"case\": \"%s\", \"value\": %.3f, \"unit\": \"%s\"}\n"
            : "%-44s %9.1f %s\n",
      name.c_str(),
      value,
      unit.c_str());
  std::fflush(stdout);
}

void Report::note(const std::string& text) const {
  if (!json_) {
    std::printf("%s\n", text.c_str());
  }
}

double seconds_of(int repeats, const std::function<void()>& body) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    const auto start = Clock::now();
    body();
    times.push_back(
        std::chrono::duration<double>(Clock::now() - start).count());
  }
  return median(std::move(times));
}

}  // namespace accelerate::benchmarks
