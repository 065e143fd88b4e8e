// SPDX-License-Identifier: Apache-2.0
// Every exception this library throws on purpose, by what the caller can do
// about it.
//
//     try {
//       accelerator.backward(loss);
//     } catch (const accelerate::DistributedError& error) {
//       std::cerr << error.what() << "\nhint: " << error.hint() << "\n";
//     }
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>

#include "accelerate/export.h"

namespace accelerate {

/// Base of every exception this library throws on purpose.
class ACCELERATE_API Error : public std::runtime_error {
 public:
  explicit Error(
      const std::string& what_happened,
      std::string hint = {},
      std::source_location where = std::source_location::current());
  Error(const Error&) = default;
  Error(Error&&) = default;
  Error& operator=(const Error&) = default;
  Error& operator=(Error&&) = default;
  ~Error() override;

  /// What the reader can do about it, as an imperative; may be empty.
  const std::string& hint() const noexcept { return hint_; }
  /// Where it was thrown. Shown with `--verbose`, never part of `what()`.
  const std::source_location& where() const noexcept { return where_; }
  /// Exit code of a command-line program that ends with this error.
  virtual int exit_code() const noexcept { return 1; }

 private:
  std::string hint_;
  std::source_location where_;
};

/// This value can never work.
class ACCELERATE_API ArgumentError : public Error {
 public:
  using Error::Error;
  ~ArgumentError() override;
  int exit_code() const noexcept override { return 2; }
};

/// A file, flag or environment variable is wrong; the text names it.
class ACCELERATE_API ConfigError : public Error {
 public:
  using Error::Error;
  ~ConfigError() override;
  int exit_code() const noexcept override { return 2; }
};

/// The right call at the wrong moment.
class ACCELERATE_API StateError : public Error {
 public:
  using Error::Error;
  ~StateError() override;
};

/// This build or device cannot do it; the text says which could.
class ACCELERATE_API UnsupportedError : public Error {
 public:
  using Error::Error;
  ~UnsupportedError() override;
};

/// Something outside cannot be read or written.
class ACCELERATE_API IoError : public Error {
 public:
  using Error::Error;
  ~IoError() override;
};

/// A file's content is not what it claims; path and byte offset are named.
class ACCELERATE_API FormatError : public Error {
 public:
  using Error::Error;
  ~FormatError() override;
};

/// A peer died or did not come in time; the group is unusable afterwards.
class ACCELERATE_API DistributedError : public Error {
 public:
  using Error::Error;
  ~DistributedError() override;
};

/// The ranks of a group made different calls, or the same call with tensors
/// that do not fit together. Every rank gets it; the group stays usable.
class ACCELERATE_API MismatchError : public DistributedError {
 public:
  using DistributedError::DistributedError;
  ~MismatchError() override;
};

/// Another rank threw while this one was fine. The group stays usable.
class ACCELERATE_API PeerError : public DistributedError {
 public:
  using DistributedError::DistributedError;
  ~PeerError() override;
};

/// A device or the host has no memory left for the request.
class ACCELERATE_API OutOfMemoryError : public Error {
 public:
  using Error::Error;
  ~OutOfMemoryError() override;
};

/// A bug of ours.
class ACCELERATE_API InternalError : public Error {
 public:
  using Error::Error;
  ~InternalError() override;
  int exit_code() const noexcept override { return 70; }
};

}  // namespace accelerate
