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

/// Reads the runs in `path`: the file of a tracker, or a folder with files of
/// runs, in itself or in folders within it. In a folder, reads
/// `metrics.jsonl`, or else `metrics.csv`, or else TensorBoard's event files.
/// If a step was logged twice, the last value counts. A file whose end is
/// incomplete is read up to there.
///
/// Throws `IoError` if there is no such file, and `FormatError` for a file that
/// is not one of these.
std::vector<RunCurves> read_runs(const std::filesystem::path& path);

}  // namespace accelerate
