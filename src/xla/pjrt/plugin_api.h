// SPDX-License-Identifier: Apache-2.0
// Calls into the C interface of a plugin. Only the sources in this folder
// include this header.
#pragma once

#include <cstddef>
#include <string>

#include <pjrt_c_api.h>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate::xla {

/// The functions of one plugin. Thread-safe.
class PluginApi {
 public:
  PluginApi(const PJRT_Api* table, std::string path)
      : table_(table), path_(std::move(path)) {}

  int major() const { return table_->pjrt_api_version.major_version; }
  int minor() const { return table_->pjrt_api_version.minor_version; }
  const std::string& path() const { return path_; }
  const PJRT_Api& table() const { return *table_; }

  /// Returns whether the plugin's table contains the function at `offset`. The
  /// table of an older plugin is shorter.
  bool reaches(std::size_t offset) const {
    return offset + sizeof(void*) <= table_->struct_size;
  }

  /// If `error` is not null, destroys it and throws an exception with the
  /// plugin's error text. `action` is what the call does, for the error
  /// message: "compile a program".
  void check(PJRT_Error* error, const char* action) const;

  /// Destroys `error` without throwing; for destructors.
  void drop(PJRT_Error* error) const noexcept;

  [[noreturn]] void throw_missing(const char* function) const;

 private:
  const PJRT_Api* table_;
  std::string path_;
};

/// Returns zeroed arguments for a call. Sets the size of the struct, which
/// tells a newer plugin which fields exist.
template <typename Args>
Args make_args(std::size_t struct_size) {
  Args args{};
  args.struct_size = struct_size;
  return args;
}

}  // namespace accelerate::xla

/// `ACCELERATE_PJRT_ARGS(Client_Create, args)` declares the arguments of one
/// call.
#define ACCELERATE_PJRT_ARGS(call, name)                        \
  auto name = ::accelerate::xla::make_args<PJRT_##call##_Args>( \
      PJRT_##call##_Args_STRUCT_SIZE)

/// Calls a function of the plugin. Throws if the plugin does not have this
/// function or if the function fails. `action` is what the call does, for the
/// error message: "compile a program".
#define ACCELERATE_PJRT_CALL(api, call, args, action)        \
  do {                                                       \
    if (!(api).reaches(offsetof(PJRT_Api, PJRT_##call)) ||   \
        (api).table().PJRT_##call == nullptr) {              \
      (api).throw_missing("PJRT_" #call);                    \
    }                                                        \
    (api).check((api).table().PJRT_##call(&(args)), action); \
  } while (false)

/// Like `ACCELERATE_PJRT_CALL`, for destructors: ignores errors and never
/// throws.
#define ACCELERATE_PJRT_DESTROY(api, call, args)          \
  do {                                                    \
    if ((api).reaches(offsetof(PJRT_Api, PJRT_##call)) && \
        (api).table().PJRT_##call != nullptr) {           \
      (api).drop((api).table().PJRT_##call(&(args)));     \
    }                                                     \
  } while (false)
