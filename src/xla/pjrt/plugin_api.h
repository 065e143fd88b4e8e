// SPDX-License-Identifier: Apache-2.0
// Calls into the C interface of a plugin. Only the sources of this folder
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

  /// Whether the plugin's table reaches as far as the function at `offset`: an
  /// older plugin has a shorter table.
  bool reaches(std::size_t offset) const {
    return offset + sizeof(void*) <= table_->struct_size;
  }

  /// Throws the exception for `error`, with the plugin's text, and destroys
  /// `error`; does nothing if there is none.
  void check(PJRT_Error* error, const char* action) const;

  /// Destroys `error`, for destructors.
  void drop(PJRT_Error* error) const noexcept;

  [[noreturn]] void throw_missing(const char* function) const;

 private:
  const PJRT_Api* table_;
  std::string path_;
};

/// Arguments of a call, zeroed, with the size that the header was compiled
/// with, by which a newer plugin knows which fields exist.
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

/// Calls a function of the plugin; throws if the plugin does not have it or it
/// fails. `action` says what was tried: "compile a program".
#define ACCELERATE_PJRT_CALL(api, call, args, action)        \
  do {                                                       \
    if (!(api).reaches(offsetof(PJRT_Api, PJRT_##call)) ||   \
        (api).table().PJRT_##call == nullptr) {              \
      (api).throw_missing("PJRT_" #call);                    \
    }                                                        \
    (api).check((api).table().PJRT_##call(&(args)), action); \
  } while (false)

/// The same for destructors: ignores errors, never throws.
#define ACCELERATE_PJRT_DESTROY(api, call, args)          \
  do {                                                    \
    if ((api).reaches(offsetof(PJRT_Api, PJRT_##call)) && \
        (api).table().PJRT_##call != nullptr) {           \
      (api).drop((api).table().PJRT_##call(&(args)));     \
    }                                                     \
  } while (false)
