// SPDX-License-Identifier: Apache-2.0
// Prints the name of a mapped file that cannot be read.
#pragma once

#include <cstddef>
#include <filesystem>

namespace accelerate {

/// While this object exists, an access to `memory` that raises SIGBUS prints
/// the name of the mapped file to stderr before the program ends. The system
/// raises SIGBUS when the file was truncated after it was mapped, or when its
/// disk fails.
///
/// The first object installs a signal handler. The handler then calls the
/// previously installed handler. If no handler was installed before, the signal
/// ends the program as usual.
///
/// Thread safety: objects may be created and destroyed in any thread.
class NamedMapping {
 public:
  NamedMapping() = default;
  NamedMapping(
      const void* memory, std::size_t size, const std::filesystem::path& path);
  NamedMapping(NamedMapping&& other) noexcept;
  NamedMapping& operator=(NamedMapping&& other) noexcept;
  ~NamedMapping() { end(); }

  /// Ends the effect of this object. Must be called before the memory is
  /// unmapped.
  void end() noexcept;

  struct Entry;

 private:
  Entry* entry_ = nullptr;
};

}  // namespace accelerate
