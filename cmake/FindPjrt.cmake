# SPDX-License-Identifier: Apache-2.0
# Finds PJRT's C header, and the CPU plugin that the tests use, in the wheel
# `xla-cpu-pjrt`.
#
# Input:   PJRT_DIR  the folder that holds `include/` and the plugin
#          (default: .deps/pjrt/xla_plugins/xla_cpu_pjrt in the source tree)
# Output:  Pjrt_CPU_PLUGIN
# Targets: Pjrt::headers
if(NOT PJRT_DIR)
  set(PJRT_DIR ${CMAKE_CURRENT_LIST_DIR}/../.deps/pjrt/xla_plugins/xla_cpu_pjrt)
endif()
get_filename_component(PJRT_DIR "${PJRT_DIR}" REALPATH)

find_path(Pjrt_INCLUDE_DIR pjrt_c_api.h
  PATHS ${PJRT_DIR}/include NO_DEFAULT_PATH NO_CACHE)
find_file(Pjrt_CPU_PLUGIN xla_cpu_pjrt.so
  PATHS ${PJRT_DIR} NO_DEFAULT_PATH NO_CACHE)
if(Pjrt_INCLUDE_DIR)
  file(STRINGS ${Pjrt_INCLUDE_DIR}/pjrt_c_api.h _pjrt_lines
    REGEX "define PJRT_API_(MAJOR|MINOR) ")
  string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*" "\\1.\\2"
    Pjrt_VERSION "${_pjrt_lines}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Pjrt
  REQUIRED_VARS Pjrt_INCLUDE_DIR Pjrt_CPU_PLUGIN
  VERSION_VAR Pjrt_VERSION
  REASON_FAILURE_MESSAGE
    "no PJRT header in ${PJRT_DIR}: run `make deps`, or set PJRT_DIR")

if(Pjrt_FOUND AND NOT TARGET Pjrt::headers)
  # The members of the table are named like their types, which g++ refuses in
  # C++ unless the type is qualified.
  file(READ ${Pjrt_INCLUDE_DIR}/pjrt_c_api.h _pjrt_header)
  string(REPLACE "_PJRT_API_STRUCT_FIELD(fn_type) fn_type*"
    "_PJRT_API_STRUCT_FIELD(fn_type) ::fn_type*" _pjrt_header "${_pjrt_header}")
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/pjrt/pjrt_c_api.h
    CONTENT "${_pjrt_header}" @ONLY)
  add_library(Pjrt::headers INTERFACE IMPORTED)
  target_include_directories(Pjrt::headers SYSTEM INTERFACE
    ${PROJECT_BINARY_DIR}/pjrt)
endif()
