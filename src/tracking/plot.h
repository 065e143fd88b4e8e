// SPDX-License-Identifier: Apache-2.0
// Draws curves as SVG and as text.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tracking/run_curves.h"

namespace accelerate {

/// One panel: a key, and the curve of each run that logged it.
struct PlotPanel {
  struct Line {
    std::size_t run = 0;  ///< Index into the names of the runs.
    Curve curve;
    Curve smoothed = {};  ///< Empty if the curve is not smoothed.
  };

  std::string key;
  std::vector<Line> lines;
};

struct Plot {
  std::vector<std::string> runs;
  std::vector<PlotPanel> panels;
};

struct PlotOptions {
  /// The keys to draw; if empty, all keys.
  std::vector<std::string> keys = {};
  /// How much curves are smoothed: the weight of the average of earlier values,
  /// in [0, 1). If 0, curves are not smoothed.
  double smoothing = 0;
};

/// Sorts the curves of all runs into panels. Throws `ArgumentError` for a key
/// that no run has.
Plot make_plot(const std::vector<RunCurves>& runs, const PlotOptions& options);

/// Returns an SVG image with two panels per row and a legend. If a curve is
/// smoothed, its original values are drawn faintly.
std::string svg_of(const Plot& plot);

/// Returns the panels as text, with lines of `columns` characters. Each run has
/// its own mark.
std::string text_of(const Plot& plot, std::size_t columns);

/// Returns about `count` round numbers that divide the range from `low` to
/// `high`.
std::vector<double> axis_ticks(double low, double high, int count);

}  // namespace accelerate
