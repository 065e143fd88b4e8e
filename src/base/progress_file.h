// SPDX-License-Identifier: Apache-2.0
// A file that contains the current training step of a worker. The launcher can
// read the step even after the worker has died. The worker maps the eight bytes
// of the file into memory, so an update is a single write to memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

namespace accelerate {

/// Creates a progress file that contains no step yet. Throws `IoError`.
void create_progress_file(const std::string& path);

/// Returns the last step that was written; empty if there is no file or if no
/// step was written yet.
std::optional<std::int64_t> read_progress(const std::string& path);

class ProgressWriter {
 public:
  /// If the file cannot be opened, `write` does nothing: progress reports are
  /// optional.
  explicit ProgressWriter(const std::string& path);
  ProgressWriter(const ProgressWriter&) = delete;
  ProgressWriter& operator=(const ProgressWriter&) = delete;
  ~ProgressWriter();

  /// Writes the current step. Thread-safe.
  void write(std::int64_t step) noexcept;

 private:
  std::atomic<std::int64_t>* step_ = nullptr;
};

}  // namespace accelerate
