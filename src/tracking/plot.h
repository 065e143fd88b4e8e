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
    Curve smoothed = {};  ///< Empty: not smoothed.
  };

  std::string key;
  std::vector<Line> lines;
};

struct Plot {
  std::vector<std::string> runs;
  std::vector<PlotPanel> panels;
};

struct PlotOptions {
  /// Only these keys; empty: all.
  std::vector<std::string> keys = {};
  /// The weight of the average so far, 0 to less than 1; 0 does not smooth.
  double smoothing = 0;
};

/// Sorts the curves of all runs into panels. Throws `ArgumentError` for a key
/// that no run has.
Plot make_plot(const std::vector<RunCurves>& runs, const PlotOptions& options);

/// Returns an SVG image with two panels per row, and a legend. Original values
/// are faint where there are smoothed ones.
std::string svg_of(const Plot& plot);

/// Returns panels of characters, `columns` wide; each run has its own mark.
std::string text_of(const Plot& plot, std::size_t columns);

/// Returns about `count` round numbers that divide the range from `low` to
/// `high`.
std::vector<double> axis_ticks(double low, double high, int count);

}  // namespace accelerate
