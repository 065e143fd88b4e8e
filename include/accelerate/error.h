// SPDX-License-Identifier: Apache-2.0
// The exceptions this library throws, classified by what the caller can do
// about them.
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

/// Base class of all exceptions this library throws.
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

  /// Returns an imperative sentence that says what the user can do about the
  /// error; may be empty.
  const std::string& hint() const noexcept { return hint_; }
  /// Returns where the error was thrown. Command-line programs print this
  /// location only with `--verbose`; `what()` does not contain it.
  const std::source_location& where() const noexcept { return where_; }
  /// Returns the exit code of a command-line program that fails with this
  /// error.
  virtual int exit_code() const noexcept { return 1; }

 private:
  std::string hint_;
  std::source_location where_;
};

/// An argument has an invalid value.
class ACCELERATE_API ArgumentError : public Error {
 public:
  using Error::Error;
  ~ArgumentError() override;
  int exit_code() const noexcept override { return 2; }
};

/// A configuration file, flag or environment variable is wrong; the message
/// names it.
class ACCELERATE_API ConfigError : public Error {
 public:
  using Error::Error;
  ~ConfigError() override;
  int exit_code() const noexcept override { return 2; }
};

/// A valid call was made at the wrong time.
class ACCELERATE_API StateError : public Error {
 public:
  using Error::Error;
  ~StateError() override;
};

/// This build or device does not support the operation or value.
class ACCELERATE_API UnsupportedError : public Error {
 public:
  using Error::Error;
  ~UnsupportedError() override;
};

/// A file, socket or other external resource cannot be read or written.
class ACCELERATE_API IoError : public Error {
 public:
  using Error::Error;
  ~IoError() override;
};

/// The content of a file or a saved state is malformed, or does not fit the
/// objects in this run; the message names the location.
class ACCELERATE_API FormatError : public Error {
 public:
  using Error::Error;
  ~FormatError() override;
};

/// Another rank died or timed out; the process group is unusable afterwards.
class ACCELERATE_API DistributedError : public Error {
 public:
  using Error::Error;
  ~DistributedError() override;
};

/// The ranks made different calls, or the same call with tensors that do not
/// match. Every rank throws this error; the process group stays usable.
class ACCELERATE_API MismatchError : public Error {
 public:
  using Error::Error;
  ~MismatchError() override;
};

/// Another rank threw an exception, but this rank did not. The process group
/// stays usable.
class ACCELERATE_API RankError : public Error {
 public:
  using Error::Error;
  ~RankError() override;
};

/// Device or host memory is exhausted.
class ACCELERATE_API OutOfMemoryError : public Error {
 public:
  using Error::Error;
  ~OutOfMemoryError() override;
};

/// A bug in this library.
class ACCELERATE_API InternalError : public Error {
 public:
  using Error::Error;
  ~InternalError() override;
  int exit_code() const noexcept override { return 70; }
};

}  // namespace accelerate
