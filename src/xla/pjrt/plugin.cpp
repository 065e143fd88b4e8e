// SPDX-License-Identifier: Apache-2.0
#include "xla/pjrt/plugin.h"

#include <filesystem>

#include "base/plugin.h"
#include "xla/pjrt/plugin_api.h"

namespace accelerate::xla {
namespace {

const PJRT_Api& load_table(const std::string& path) {
  return accelerate::Plugin(
             path,
             {.feature = "XLA",
              .entry = "GetPjrtApi",
              .hint = "install a plugin, for example the wheel "
                      "`xla-cpu-pjrt`, and set PJRT_PLUGIN_PATH to its .so "
                      "file"})
      .table<PJRT_Api>();
}

// The major version changes when the layout of the structures does. Every
// other difference is checked per call.
void check_version(const PJRT_Api& table, const std::string& path) {
  constexpr std::size_t kVersionEnd =
      offsetof(PJRT_Api, pjrt_api_version) + sizeof(PJRT_Api_Version);
  const PJRT_Api_Version& version = table.pjrt_api_version;
  if (table.struct_size >= kVersionEnd &&
      version.major_version == PJRT_API_MAJOR) {
    return;
  }
  throw UnsupportedError(
      str_cat(
          "the PJRT plugin `",
          path,
          "` has interface version ",
          version.major_version,
          ".",
          version.minor_version,
          ", but this build needs ",
          PJRT_API_MAJOR,
          ".x (it was compiled with ",
          PJRT_API_MAJOR,
          ".",
          PJRT_API_MINOR,
          ")"),
      "install a release of the plugin with that interface version");
}

std::string message_of_error(const PJRT_Api& table, PJRT_Error* error) {
  ACCELERATE_PJRT_ARGS(Error_Message, args);
  args.error = error;
  table.PJRT_Error_Message(&args);
  return {args.message, args.message_size};
}

PJRT_Error_Code code_of_error(const PJRT_Api& table, PJRT_Error* error) {
  ACCELERATE_PJRT_ARGS(Error_GetCode, args);
  args.error = error;
  PJRT_Error* failure = table.PJRT_Error_GetCode(&args);
  return failure == nullptr ? args.code : PJRT_Error_Code_UNKNOWN;
}

}  // namespace

void PluginApi::drop(PJRT_Error* error) const noexcept {
  if (error == nullptr) {
    return;
  }
  ACCELERATE_PJRT_ARGS(Error_Destroy, args);
  args.error = error;
  table_->PJRT_Error_Destroy(&args);
}

void PluginApi::check(PJRT_Error* error, const char* action) const {
  if (error == nullptr) {
    return;
  }
  const PJRT_Error_Code code = code_of_error(*table_, error);
  const std::string text = str_cat(
      "cannot ", action, " with XLA: ", message_of_error(*table_, error));
  drop(error);
  switch (code) {
    case PJRT_Error_Code_RESOURCE_EXHAUSTED:
      throw OutOfMemoryError(
          text,
          "use a smaller batch, or shard the parameters over more devices");
    case PJRT_Error_Code_INVALID_ARGUMENT:
    case PJRT_Error_Code_OUT_OF_RANGE:
      throw ArgumentError(text);
    case PJRT_Error_Code_INTERNAL:
    case PJRT_Error_Code_DATA_LOSS:
      throw InternalError(text);
    default:
      throw UnsupportedError(text);
  }
}

void PluginApi::throw_missing(const char* function) const {
  throw UnsupportedError(
      str_cat(
          "the PJRT plugin `",
          path_,
          "` (interface version ",
          major(),
          ".",
          minor(),
          ") has no `",
          function,
          "`"),
      str_cat(
          "install a release of the plugin with interface version ",
          PJRT_API_MAJOR,
          ".",
          PJRT_API_MINOR,
          " or later"));
}

Plugin::Plugin(const std::string& path)
    : path_(path), kind_(plugin_kind(path)) {
  if (!std::filesystem::path(path).is_absolute()) {
    throw ArgumentError(
        str_cat("the path of the PJRT plugin is relative: `", path, "`"),
        "use an absolute path");
  }
  prepare_environment(kind_);
  const PJRT_Api& table = load_table(path);
  check_version(table, path);
  api_ = std::make_shared<const PluginApi>(&table, path);
  ACCELERATE_PJRT_ARGS(Plugin_Initialize, args);
  ACCELERATE_PJRT_CALL(*api_, Plugin_Initialize, args, "start the plugin");
}

std::string Plugin::api_version() const {
  return str_cat(api_->major(), ".", api_->minor());
}

}  // namespace accelerate::xla
