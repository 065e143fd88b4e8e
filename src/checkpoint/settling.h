// SPDX-License-Identifier: Apache-2.0
// A state that still looks into the files it was loaded from.
#pragma once

#include <atomic>
#include <future>
#include <memory>
#include <vector>

#include "base/mapped_file.h"

namespace accelerate {

/// Gives a loaded state memory of its own, in a thread beside training: until
/// then nobody should change or remove its files.
///
/// Thread safety: one thread at a time.
class Settling {
 public:
  Settling() = default;
  Settling(const Settling&) = delete;
  Settling& operator=(const Settling&) = delete;
  /// Stops; what has not moved yet stays mapped.
  ~Settling();

  /// Begins with the files that somebody still looks into.
  void start(const std::vector<std::weak_ptr<MappedFile>>& files);
  /// Returns when everything has moved.
  void finish();

 private:
  std::future<void> work_;
  std::atomic<bool> stop_ = false;
};

}  // namespace accelerate
