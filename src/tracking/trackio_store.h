// SPDX-License-Identifier: Apache-2.0
// The files in which Trackio keeps its projects.
#pragma once

#include <filesystem>
#include <string>

#include "config/environment.h"
#include "tracking/sqlite.h"

namespace accelerate {

/// Returns the folder of Trackio's files: TRACKIO_DIR, or else `trackio` in
/// `hugging_face_home`.
std::filesystem::path trackio_folder(const Environment& environment);

/// Returns the name of a project's files: the letters, digits, `-` and `_` in
/// `project`. Different projects can have the same file name. Throws
/// `ArgumentError` for a name that Trackio reserves.
std::string trackio_project(const std::string& project);

/// Creates the tables if the database is new. Returns whether a newer Trackio
/// has changed the tables; throws `UnsupportedError` if the columns that this
/// library writes are not there. Call it within a transaction.
bool prepare_trackio_tables(SqliteDatabase& database);

/// Returns a time as Trackio stores it: ISO 8601 in UTC. Later times compare
/// greater as text.
std::string trackio_time(std::int64_t time_us);

/// Returns a random (version 4) UUID as 32 hexadecimal digits.
std::string random_uuid();

}  // namespace accelerate
