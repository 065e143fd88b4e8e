// SPDX-License-Identifier: Apache-2.0
// One number that a worker writes and its launcher reads, also after the
// worker is dead: the step it is at. Eight bytes of shared memory, so that
// telling it costs a store, in any loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

namespace accelerate {

/// Makes the file, with no step in it. Throws `IoError`.
void create_progress_file(const std::string& path);

/// The last step that was written; none without a file or before the first.
std::optional<std::int64_t> read_progress(const std::string& path);

class ProgressWriter {
 public:
  /// A file that cannot be opened is not written: nobody depends on it.
  explicit ProgressWriter(const std::string& path);
  ProgressWriter(const ProgressWriter&) = delete;
  ProgressWriter& operator=(const ProgressWriter&) = delete;
  ~ProgressWriter();

  /// Thread-safe.
  void write(std::int64_t step) noexcept;

 private:
  std::atomic<std::int64_t>* step_ = nullptr;
};

}  // namespace accelerate
