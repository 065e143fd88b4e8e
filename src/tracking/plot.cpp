// SPDX-License-Identifier: Apache-2.0
#include "tracking/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <string_view>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate {
namespace {

// Okabe and Ito's colors, which color-blind readers can tell apart.
constexpr std::array kColors{
    "#0072b2",
    "#d55e00",
    "#009e73",
    "#cc79a7",
    "#e69f00",
    "#56b4e9",
    "#000000",
    "#b8ad00"};
constexpr std::string_view kMarks = "*o+x#@%&";

// Sizes of an SVG panel.
constexpr double kPanelWidth = 460;
constexpr double kPanelHeight = 280;
constexpr double kLeft = 64;
constexpr double kRight = 16;
constexpr double kTop = 32;
constexpr double kBottom = 36;
constexpr double kLegendLine = 20;
// More points than this would not be visible.
constexpr std::size_t kMaxPoints = 800;

struct Range {
  double low = 0;
  double high = 1;

  double share(double value) const { return (value - low) / (high - low); }
};

Range range_of(const PlotPanel& panel, std::vector<double> Curve::* member) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Range range{kInfinity, -kInfinity};
  for (const PlotPanel::Line& line : panel.lines) {
    for (const Curve* curve : {&line.curve, &line.smoothed}) {
      for (const double value : curve->*member) {
        if (std::isfinite(value)) {
          range.low = std::min(range.low, value);
          range.high = std::max(range.high, value);
        }
      }
    }
  }
  if (range.low > range.high) {
    return {0, 1};  // No finite value.
  }
  if (range.low == range.high) {
    const double margin = range.low == 0 ? 1 : std::abs(range.low) * 0.1;
    return {range.low - margin, range.high + margin};
  }
  return range;
}

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", value == 0 ? 0.0 : value);
  return text;
}

std::string xml_text(std::string_view text) {
  std::string result = printable(text);
  for (const auto& [from, to] :
       {std::pair("&", "&amp;"),
        std::pair("<", "&lt;"),
        std::pair(">", "&gt;"),
        std::pair("\"", "&quot;")}) {
    result = replace_all(std::move(result), from, to);
  }
  return result;
}

std::string pixels(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", value);
  return text;
}

/// Keeps the smallest and the largest value of each group of points, so that
/// peaks stay visible.
Curve thinned(const Curve& curve) {
  const std::size_t size = curve.values.size();
  if (size <= kMaxPoints) {
    return curve;
  }
  Curve result;
  const std::size_t group = size / (kMaxPoints / 2) + 1;
  for (std::size_t begin = 0; begin < size; begin += group) {
    const auto first =
        curve.values.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last =
        first + static_cast<std::ptrdiff_t>(std::min(group, size - begin));
    auto [low, high] = std::minmax_element(first, last);
    if (high < low) {
      std::swap(low, high);
    }
    for (const auto& point : {low, high}) {
      const auto index = static_cast<std::size_t>(point - curve.values.begin());
      result.steps.push_back(curve.steps[index]);
      result.values.push_back(*point);
    }
  }
  return result;
}

/// A panel of an SVG image at a position.
class SvgPanel {
 public:
  SvgPanel(const PlotPanel& panel, double left, double top)
      : panel_(panel),
        left_(left + kLeft),
        top_(top + kTop),
        steps_(range_of(panel, &Curve::steps)),
        values_(range_of(panel, &Curve::values)) {}

  std::string draw() const {
    std::string svg = str_cat(
        "<text x=\"",
        pixels(left_ + kWidth / 2),
        "\" y=\"",
        pixels(top_ - 12),
        "\" text-anchor=\"middle\" font-weight=\"bold\">",
        xml_text(panel_.key),
        "</text>\n");
    for (const double tick : axis_ticks(values_.low, values_.high, 5)) {
      svg += grid_line(left_, y(tick), left_ + kWidth, y(tick));
      svg += label(left_ - 6, y(tick) + 4, "end", tick);
    }
    for (const double tick : axis_ticks(steps_.low, steps_.high, 6)) {
      svg += grid_line(x(tick), top_, x(tick), top_ + kHeight);
      svg += label(x(tick), top_ + kHeight + 16, "middle", tick);
    }
    for (const PlotPanel::Line& line : panel_.lines) {
      const bool smooth = !line.smoothed.values.empty();
      svg += path(line.curve, line.run, smooth ? 0.25 : 1.0);
      if (smooth) {
        svg += path(line.smoothed, line.run, 1.0);
      }
    }
    return svg;
  }

 private:
  static constexpr double kWidth = kPanelWidth - kLeft - kRight;
  static constexpr double kHeight = kPanelHeight - kTop - kBottom;

  double x(double step) const { return left_ + kWidth * steps_.share(step); }
  double y(double value) const {
    return top_ + kHeight * (1 - values_.share(value));
  }
  static std::string grid_line(double x1, double y1, double x2, double y2) {
    return str_cat(
        "<line x1=\"",
        pixels(x1),
        "\" y1=\"",
        pixels(y1),
        "\" x2=\"",
        pixels(x2),
        "\" y2=\"",
        pixels(y2),
        "\" stroke=\"#dddddd\"/>\n");
  }
  static std::string label(
      double at_x, double at_y, const char* anchor, double value) {
    return str_cat(
        "<text x=\"",
        pixels(at_x),
        "\" y=\"",
        pixels(at_y),
        "\" text-anchor=\"",
        anchor,
        "\" fill=\"#555555\">",
        number_text(value),
        "</text>\n");
  }
  // Values that are not finite interrupt the line. A single point is a dot.
  std::string path(const Curve& full, std::size_t run, double opacity) const {
    const Curve curve = thinned(full);
    std::string commands;
    bool drawing = false;
    for (std::size_t i = 0; i < curve.values.size(); ++i) {
      if (!std::isfinite(curve.values[i])) {
        drawing = false;
        continue;
      }
      const std::string point =
          pixels(x(curve.steps[i])) + " " + pixels(y(curve.values[i]));
      commands += str_cat(drawing ? "L" : "M", point);
      if (!drawing) {
        commands += str_cat("L", point);
      }
      drawing = true;
    }
    return str_cat(
        "<path d=\"",
        commands,
        "\" fill=\"none\" stroke=\"",
        kColors[run % kColors.size()],
        "\" stroke-opacity=\"",
        opacity,
        "\" stroke-width=\"1.6\" stroke-linecap=\"round\" "
        "stroke-linejoin=\"round\"/>\n");
  }

  const PlotPanel& panel_;
  double left_;
  double top_;
  Range steps_;
  Range values_;
};

std::string svg_legend(const std::vector<std::string>& runs, double top) {
  std::string svg;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const double y = top + kLegendLine * (static_cast<double>(i) + 0.5);
    svg += str_cat(
        "<line x1=\"",
        kLeft,
        "\" y1=\"",
        pixels(y),
        "\" x2=\"",
        kLeft + 24,
        "\" y2=\"",
        pixels(y),
        "\" stroke=\"",
        kColors[i % kColors.size()],
        "\" stroke-width=\"3\"/>\n<text x=\"",
        kLeft + 32,
        "\" y=\"",
        pixels(y + 4),
        "\">",
        xml_text(runs[i]),
        "</text>\n");
  }
  return svg;
}

std::string padded_left(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, text.size()), ' ') + text;
}

std::string text_panel(const PlotPanel& panel, std::size_t columns) {
  constexpr std::size_t kRows = 12;
  constexpr std::size_t kLabel = 11;
  const std::size_t width = std::max<std::size_t>(columns, 40) - kLabel - 2;
  const Range steps = range_of(panel, &Curve::steps);
  const Range values = range_of(panel, &Curve::values);
  std::vector<std::string> rows(kRows, std::string(width, ' '));
  for (const PlotPanel::Line& line : panel.lines) {
    const Curve& curve =
        line.smoothed.values.empty() ? line.curve : line.smoothed;
    for (std::size_t i = 0; i < curve.values.size(); ++i) {
      if (!std::isfinite(curve.values[i])) {
        continue;
      }
      const auto column = static_cast<std::size_t>(std::lround(
          steps.share(curve.steps[i]) * static_cast<double>(width - 1)));
      const auto row = static_cast<std::size_t>(std::lround(
          (1 - values.share(curve.values[i])) *
          static_cast<double>(kRows - 1)));
      rows[row][column] = kMarks[line.run % kMarks.size()];
    }
  }
  std::string text = printable(panel.key) + "\n";
  for (std::size_t row = 0; row < kRows; ++row) {
    const std::string label = row == 0           ? number_text(values.high)
                              : row + 1 == kRows ? number_text(values.low)
                                                 : "";
    const auto end = rows[row].find_last_not_of(' ');
    text += str_cat(
        padded_left(label, kLabel),
        " |",
        rows[row].substr(0, end == std::string::npos ? 0 : end + 1),
        "\n");
  }
  const std::string first = number_text(steps.low);
  const std::string last = number_text(steps.high);
  text +=
      str_cat(std::string(kLabel + 1, ' '), "+", std::string(width, '-'), "\n");
  text += str_cat(
      std::string(kLabel + 2, ' '),
      first,
      padded_left(last, width - std::min(width, first.size())),
      "\n");
  return text;
}

// The average of the values so far, in which older values count less. The first
// values are not pulled toward zero.
Curve smoothed_curve(const Curve& curve, double weight) {
  Curve result;
  double average = 0;
  double total = 0;
  for (std::size_t i = 0; i < curve.values.size(); ++i) {
    if (!std::isfinite(curve.values[i])) {
      continue;
    }
    average = weight * average + (1 - weight) * curve.values[i];
    total = weight * total + (1 - weight);
    result.steps.push_back(curve.steps[i]);
    result.values.push_back(average / total);
  }
  return result;
}

}  // namespace

std::vector<double> axis_ticks(double low, double high, int count) {
  const double raw = (high - low) / count;
  const double magnitude = std::pow(10, std::floor(std::log10(raw)));
  double step = magnitude;
  for (const double factor : {10.0, 5.0, 2.0}) {
    if (raw <= magnitude * factor) {
      step = magnitude * factor;
    }
  }
  std::vector<double> ticks;
  for (double index = std::ceil(low / step);
       index * step <= high && ticks.size() < 100;
       ++index) {
    ticks.push_back(index * step);
  }
  return ticks;
}

Plot make_plot(const std::vector<RunCurves>& runs, const PlotOptions& options) {
  std::map<std::string, PlotPanel> panels;
  Plot plot;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    plot.runs.push_back(runs[r].name);
    for (const auto& [key, curve] : runs[r].curves) {
      PlotPanel& panel = panels[key];
      panel.key = key;
      panel.lines.push_back(
          {r,
           curve,
           options.smoothing > 0 ? smoothed_curve(curve, options.smoothing)
                                 : Curve{}});
    }
  }
  std::vector<std::string> known;
  for (const auto& [key, panel] : panels) {
    known.push_back(key);
  }
  for (const std::string& key : options.keys.empty() ? known : options.keys) {
    const auto panel = panels.find(key);
    if (panel == panels.end()) {
      const std::string similar = did_you_mean(key, known);
      throw ArgumentError(
          str_cat("no run has values named `", printable(key), "`"),
          similar.empty() ? str_cat("use one or more of ", join(known, ", "))
                          : similar);
    }
    plot.panels.push_back(panel->second);
  }
  return plot;
}

std::string svg_of(const Plot& plot) {
  const std::size_t columns = std::min<std::size_t>(2, plot.panels.size());
  const std::size_t rows =
      columns == 0 ? 0 : (plot.panels.size() + columns - 1) / columns;
  const double panels_height = kPanelHeight * static_cast<double>(rows);
  const double width =
      kPanelWidth * static_cast<double>(std::max<std::size_t>(columns, 1));
  const double height =
      panels_height + kLegendLine * static_cast<double>(plot.runs.size()) + 12;
  std::string svg = str_cat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"",
      width,
      "\" height=\"",
      height,
      "\" viewBox=\"0 0 ",
      width,
      " ",
      height,
      "\" font-family=\"sans-serif\" font-size=\"12\">\n",
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n");
  for (std::size_t i = 0; i < plot.panels.size(); ++i) {
    const std::size_t row = i / columns;
    svg += SvgPanel(
               plot.panels[i],
               kPanelWidth * static_cast<double>(i % columns),
               kPanelHeight * static_cast<double>(row))
               .draw();
  }
  return svg + svg_legend(plot.runs, panels_height) + "</svg>\n";
}

std::string text_of(const Plot& plot, std::size_t columns) {
  std::string text;
  for (const PlotPanel& panel : plot.panels) {
    text += text_panel(panel, columns) + "\n";
  }
  for (std::size_t i = 0; i < plot.runs.size(); ++i) {
    text +=
        str_cat(kMarks[i % kMarks.size()], " ", printable(plot.runs[i]), "\n");
  }
  return text;
}

}  // namespace accelerate
