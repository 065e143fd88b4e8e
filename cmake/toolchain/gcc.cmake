# SPDX-License-Identifier: Apache-2.0
# g++ 12 or later, under any of its usual names.
include(${CMAKE_CURRENT_LIST_DIR}/common.cmake)

if(NOT CMAKE_CXX_COMPILER)
  accelerate_pick_compiler(CMAKE_CXX_COMPILER 12
    g++ g++-12 g++-13 g++-14 g++-15)
  if(NOT CMAKE_CXX_COMPILER)
    message(FATAL_ERROR "no g++ 12 or later found: run `make deps`")
  endif()
endif()
accelerate_use_linker(mold lld)
