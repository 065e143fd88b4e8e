// SPDX-License-Identifier: Apache-2.0
// Anonymous memory that several processes on one machine share.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace accelerate {

/// Rounds up to whole pages.
constexpr std::size_t whole_pages(std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  return (bytes + kPage - 1) / kPage * kPage;
}

/// A block of memory that several processes (or threads) share.
///
/// The block has no name: it is a memory file (`memfd_create`) that other
/// processes open through the creator's file descriptor (`/proc/<pid>/fd/<n>`).
/// Only the user who created the file can open it, it does not count against
/// the size of /dev/shm, and it disappears when the processes die. A random
/// nonce at the start of the block proves that a process has opened the
/// creator's memory.
///
/// While a rank is alive, it also holds a lock on one byte of the file; the
/// system releases the lock when the process exits for any reason. The lock
/// belongs to the `SharedMemory` object, not to the process, so ranks may be
/// threads of one process.
///
/// Thread safety: all members may be called from any thread. Access to the
/// bytes of the block is not synchronized.
class SharedMemory {
 public:
  /// Creates a block of at least `bytes` bytes, which are all zero.
  ///
  /// Throws `OutOfMemoryError` when the machine has too little memory.
  static std::shared_ptr<SharedMemory> create(std::size_t bytes);

  /// Opens the block at `address` (from another rank's `address()`).
  ///
  /// Throws `IoError` with the reason if the address does not lead to the
  /// creator's memory, for example because the address comes from another
  /// machine, user or run.
  static std::shared_ptr<SharedMemory> open(const std::string& address);

  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  /// Returns the start of the usable bytes, aligned to a page.
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

  /// Returns the address that other processes on this machine pass to `open`.
  /// Valid while the object that created the block exists.
  const std::string& address() const { return address_; }

  /// Takes the lock that marks `rank` as present. The lock is released when
  /// this object is destroyed or when the process exits.
  void hold_presence(int rank);

  /// Returns whether `rank` holds its presence lock. Always false for the lock
  /// that this object itself holds, because the system reports only locks of
  /// other objects.
  bool is_present(int rank) const;
  /// Returns the ranks below `size`, other than `own_rank`, that are not
  /// present.
  std::vector<int> absent_ranks(int own_rank, int size) const;

 private:
  SharedMemory(int fd, std::size_t bytes);

  int fd_ = -1;
  std::byte* base_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::string address_;
};

}  // namespace accelerate
