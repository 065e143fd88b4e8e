// SPDX-License-Identifier: Apache-2.0
// Finds and creates trackers by name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "accelerate/tracker.h"

namespace accelerate {

/// Returns the names of trackers that `log_with` accepts: first the trackers of
/// this library, then the trackers that the program registered.
std::vector<std::string> tracker_names();

/// Returns the names that `all` stands for: the trackers of this library that
/// need nothing but a folder.
std::vector<std::string> file_tracker_names();

/// Creates a tracker; `module:Class` names a tracker class in Python. Throws
/// `ArgumentError` for an unknown name, and `UnsupportedError` for a tracker
/// that only the Python library has. Both errors list the available names.
std::shared_ptr<GeneralTracker> make_tracker(const std::string& name);

}  // namespace accelerate
