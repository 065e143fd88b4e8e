// SPDX-License-Identifier: Apache-2.0
// Names the file when a mapped file cannot be read.
#pragma once

#include <cstddef>
#include <filesystem>

namespace accelerate {

/// While this object exists, a SIGBUS in the given memory prints the name of
/// the file to stderr before the program ends: the file became shorter after it
/// was mapped, or its disk failed, and no function can return that as an error.
///
/// The first object installs a signal handler. The handler calls the handler
/// that was installed before; without one, the signal ends the program as
/// usual.
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

  /// To be called before the memory is unmapped and can be used again.
  void end() noexcept;

  struct Entry;

 private:
  Entry* entry_ = nullptr;
};

}  // namespace accelerate
