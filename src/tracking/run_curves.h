// SPDX-License-Identifier: Apache-2.0
// Reads the numbers that runs logged.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace accelerate {

/// The values of one key, in the order of the steps.
struct Curve {
  std::vector<double> steps;
  std::vector<double> values;
};

struct RunCurves {
  /// The name of the run's folder or file.
  std::string name;
  std::map<std::string, Curve> curves;
};

/// Reads the runs in `path`, which is a folder or a tracker's file. Searches a
/// folder and its subfolders for runs. In the folder of a run, reads
/// `metrics.jsonl`, or else `metrics.csv`, or else TensorBoard's event files.
/// If a step was logged twice, the last value counts. If the last entry in a
/// file is incomplete, ignores that entry.
///
/// Throws `IoError` if there is no such file, and `FormatError` for any other
/// kind of file.
std::vector<RunCurves> read_runs(const std::filesystem::path& path);

}  // namespace accelerate
