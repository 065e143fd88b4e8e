// SPDX-License-Identifier: Apache-2.0
// The trackers that exist, by name.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "accelerate/tracker.h"

namespace accelerate {

/// Returns the names of the trackers that `log_with` accepts: those of this
/// library, then those that the program registered.
std::vector<std::string> tracker_names();

/// Returns the names that `all` stands for: the trackers of this library that
/// need nothing but a folder.
std::vector<std::string> file_tracker_names();

/// Makes a tracker. Throws `ArgumentError` for an unknown name, and
/// `UnsupportedError` for a tracker of the Python library that this library
/// lacks; both list the names that exist.
std::shared_ptr<GeneralTracker> make_tracker(const std::string& name);

}  // namespace accelerate
