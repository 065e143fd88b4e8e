# SPDX-License-Identifier: Apache-2.0
# clang 19 if its sanitizer runtime is installed (it compiles faster), g++
# otherwise.
find_program(_clang_19 clang++-19)
if(_clang_19)
  execute_process(COMMAND ${_clang_19} -print-resource-dir
    OUTPUT_VARIABLE _resources OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  file(GLOB_RECURSE _runtimes ${_resources}/lib/libclang_rt.tsan*.a)
endif()
if(_runtimes)
  include(${CMAKE_CURRENT_LIST_DIR}/clang.cmake)
else()
  include(${CMAKE_CURRENT_LIST_DIR}/gcc.cmake)
endif()
