# SPDX-License-Identifier: Apache-2.0
# clang 19 or later with mold or lld: the fastest builds while developing.
include(${CMAKE_CURRENT_LIST_DIR}/common.cmake)

if(NOT CMAKE_CXX_COMPILER)
  accelerate_pick_compiler(CMAKE_CXX_COMPILER 19
    clang++-19 clang++-20 clang++-21 clang++)
  if(NOT CMAKE_CXX_COMPILER)
    message(FATAL_ERROR
      "no clang 19 or later found: install `clang-19 lld-19`, or use "
      "`PRESET=gcc`")
  endif()
endif()
accelerate_use_linker(mold lld-19 lld-20 lld-21 lld)
# Without this, the timestamp inside a precompiled header defeats ccache.
set(CMAKE_CXX_FLAGS_INIT "-Xclang -fno-pch-timestamp")
