# SPDX-License-Identifier: Apache-2.0
# Finds the LibTorch inside a PyPI wheel or an unpacked libtorch archive.
#
# `find_package(Torch)` is not used: in a CUDA wheel it enables the CUDA
# language and fails without a toolkit, although CPU code needs neither.
#
# Input:   TORCH_DIR  the folder that contains `include/` and `lib/`
#          (default: .deps/python/torch in the source tree)
# Targets: LibTorch::c10, LibTorch::torch_cpu, and, if LibTorch has them,
#          LibTorch::c10_cuda and LibTorch::torch_cuda
#
# The targets are global, so that a project that adds this one with
# `add_subdirectory` can link to the targets, too.

if(NOT TORCH_DIR AND DEFINED ENV{TORCH_DIR})
  set(TORCH_DIR $ENV{TORCH_DIR})
endif()
if(NOT TORCH_DIR)
  set(TORCH_DIR ${CMAKE_CURRENT_LIST_DIR}/../.deps/python/torch)
endif()
get_filename_component(TORCH_DIR "${TORCH_DIR}" REALPATH)

set(_libtorch_version_file ${TORCH_DIR}/include/torch/headeronly/version.h)
if(EXISTS ${_libtorch_version_file})
  file(STRINGS ${_libtorch_version_file} _libtorch_lines
    REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE
    ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*PATCH ([0-9]+).*" "\\1.\\2.\\3"
    LibTorch_VERSION "${_libtorch_lines}")
endif()
find_library(LibTorch_LIBRARY torch_cpu
  PATHS ${TORCH_DIR}/lib NO_DEFAULT_PATH NO_CACHE)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_LIBRARY LibTorch_VERSION
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE
    "no LibTorch in ${TORCH_DIR}: run `make deps`, or set TORCH_DIR")

foreach(_name IN ITEMS c10 torch_cpu c10_cuda torch_cuda)
  if(EXISTS ${TORCH_DIR}/lib/lib${_name}.so AND NOT TARGET LibTorch::${_name})
    add_library(LibTorch::${_name} SHARED IMPORTED GLOBAL)
    set_target_properties(LibTorch::${_name} PROPERTIES
      IMPORTED_LOCATION ${TORCH_DIR}/lib/lib${_name}.so
      INTERFACE_INCLUDE_DIRECTORIES
        "${TORCH_DIR}/include;${TORCH_DIR}/include/torch/csrc/api/include")
  endif()
endforeach()

# Without these definitions the process group headers are empty.
# libtorch_cpu.so itself needs the CUDA runtime wheel installed next to it.
if(LibTorch_FOUND)
  get_filename_component(_libtorch_site ${TORCH_DIR} DIRECTORY)
  set_target_properties(LibTorch::torch_cpu PROPERTIES
    INTERFACE_COMPILE_DEFINITIONS "USE_DISTRIBUTED;USE_C10D_GLOO"
    INTERFACE_LINK_LIBRARIES LibTorch::c10
    INTERFACE_LINK_OPTIONS
      "LINKER:-rpath-link,${_libtorch_site}/nvidia/cu13/lib")
  if(TARGET LibTorch::torch_cuda)
    set_target_properties(LibTorch::torch_cuda PROPERTIES
      INTERFACE_COMPILE_DEFINITIONS USE_C10D_NCCL
      INTERFACE_LINK_LIBRARIES "LibTorch::c10_cuda;LibTorch::torch_cpu")
  endif()
endif()
