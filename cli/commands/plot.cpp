// SPDX-License-Identifier: Apache-2.0
// `accelerate plot`: the curves that runs logged, as an image or as text.
#include "cli/commands/plot.h"

#include <algorithm>
#include <cstdint>

#include <sys/ioctl.h>

#include "base/files.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "tracking/plot.h"

namespace accelerate {
namespace {

constexpr std::size_t kDefaultColumns = 80;

std::size_t terminal_columns(int descriptor) {
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0
             ? size.ws_col
             : kDefaultColumns;
}

PlotOptions plot_options(const ParsedArgs& arguments) {
  PlotOptions options;
  if (const auto keys = arguments.get("keys")) {
    options.keys = split(*keys, ',');
  }
  if (const auto text = arguments.get("smoothing")) {
    const auto smoothing = parse_double(*text);
    if (!smoothing || !(*smoothing >= 0 && *smoothing < 1)) {
      throw ConfigError(
          str_cat("`--smoothing` is `", printable(*text), "`"),
          "use a number that is at least 0 and less than 1, such as 0.9");
    }
    options.smoothing = *smoothing;
  }
  return options;
}

// If several runs have the same name, puts the path of each run in front of its
// name.
void make_names_differ(
    std::vector<RunCurves>& runs, const std::vector<std::string>& paths) {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto same = std::ranges::count(runs, runs[i].name, &RunCurves::name);
    if (same > 1) {
      runs[i].name = str_cat(paths[i], ": ", runs[i].name);
    }
  }
}

}  // namespace

const CommandInfo& plot_info() {
  static const CommandInfo info = {
      .name = "plot",
      .summary = "Draw the curves that runs logged.",
      .usage = "plot [options] <run>...",
      .options =
          {{.name = "output",
            .letter = "o",
            .value_name = "FILE",
            .help = "Write an SVG image to this file."},
           {.name = "keys",
            .value_name = "KEY,…",
            .help = "Draw only these values."},
           {.name = "smoothing",
            .value_name = "WEIGHT",
            .help = "Smooth the curves; 0.9 averages about 10 steps.",
            .default_text = "0"}},
      .min_positional = 1,
      .max_positional = SIZE_MAX,
      .notes =
          "Without `--output`, draws the curves as text. A run is a file "
          "that a tracker wrote (jsonl, csv or\ntensorboard), or a folder "
          "that contains such files, including in subfolders.",
      .examples =
          {"accelerate plot logs/my_project",
           "accelerate plot --keys loss,lr --smoothing 0.9 -o loss.svg run_1 "
           "run_2"},
  };
  return info;
}

int run_plot(const ParsedArgs& arguments, CommandContext& context) {
  const PlotOptions options = plot_options(arguments);
  std::vector<RunCurves> runs;
  std::vector<std::string> paths;
  for (const std::string& path : arguments.positional) {
    for (RunCurves& run : read_runs(path)) {
      runs.push_back(std::move(run));
      paths.push_back(path);
    }
  }
  make_names_differ(runs, paths);
  const Plot plot = make_plot(runs, options);
  const auto output = arguments.get("output");
  if (!output) {
    std::string text = text_of(plot, terminal_columns(context.console.out()));
    text.pop_back();
    context.console.print(text);
    return 0;
  }
  write_file(*output, svg_of(plot));
  context.console.status(str_cat(
      "Wrote ",
      *output,
      ": ",
      plot.panels.size(),
      plot.panels.size() == 1 ? " panel, " : " panels, ",
      plot.runs.size(),
      plot.runs.size() == 1 ? " run" : " runs"));
  return 0;
}

}  // namespace accelerate
