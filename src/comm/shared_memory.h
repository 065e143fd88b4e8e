// SPDX-License-Identifier: Apache-2.0
// Anonymous memory that the processes of one host map together.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace accelerate {

/// A block of memory that several processes (or threads) share.
///
/// The block has no name: it is a memory file that others reach through the
/// creator's file descriptor (`/proc/<pid>/fd/<n>`), so only the same user
/// can open it, it does not count against the size of /dev/shm, and nothing
/// is left behind whoever dies when. A random nonce at its start proves that
/// both sides look at the same memory.
///
/// Each rank also holds a lock on "its" byte of the file while it lives; the
/// kernel drops it when the process ends, however that happens. A lock belongs
/// to the object, so ranks may be threads of one process.
///
/// Thread safety: none of the members change the object after construction,
/// except `hold_presence`.
class SharedMemory {
 public:
  /// Creates a block of at least `bytes` zero bytes.
  ///
  /// Throws `OutOfMemoryError` when the system has no room for it.
  static std::shared_ptr<SharedMemory> create(std::size_t bytes);

  /// Opens the block that `address` (from another rank's `address()`) names.
  ///
  /// Throws `IoError` that says why, when the address does not lead to the
  /// creator's memory: another host, another user, an older run.
  static std::shared_ptr<SharedMemory> open(const std::string& address);

  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  /// Start of the usable bytes, aligned to a page.
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

  /// Where other processes of this host find the block. Valid while the
  /// creator lives and holds the object.
  const std::string& address() const { return address_; }

  /// Takes the lock that tells the others that `rank` is present. It is
  /// released with this object or with the process.
  void hold_presence(int rank);

  /// Whether `rank` holds its lock. The caller's own lock reads as absent.
  bool is_present(int rank) const;

 private:
  SharedMemory(int fd, std::size_t bytes);

  int fd_ = -1;
  std::byte* base_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::string address_;
};

}  // namespace accelerate
