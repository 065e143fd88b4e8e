# SPDX-License-Identifier: Apache-2.0
# What every preset's toolchain shares: the compiler cache and the linker.
# Included by the files beside it, never by a project that embeds ours.

# The first of the named programs whose version is at least `least`.
function(accelerate_pick_compiler result least)
  foreach(name IN LISTS ARGN)
    find_program(_compiler_${name} ${name})
    if(NOT _compiler_${name})
      continue()
    endif()
    execute_process(COMMAND ${_compiler_${name}} -dumpfullversion -dumpversion
      OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(version VERSION_GREATER_EQUAL least)
      set(${result} ${_compiler_${name}} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${result} "" PARENT_SCOPE)
endfunction()

# ccache, when it is there. Without this sloppiness it would not cache a file
# that uses a precompiled header; no source of ours uses __TIME__.
find_program(ACCELERATE_CCACHE ccache)
if(ACCELERATE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    ${ACCELERATE_CCACHE})
endif()

# A linker faster than the default, when there is one: reading the symbols of
# LibTorch's libraries is most of the time of a link.
macro(accelerate_use_linker)
  foreach(_linker IN ITEMS ${ARGN})
    find_program(_linker_${_linker} NAMES ld.${_linker})
    if(_linker_${_linker})
      foreach(_kind IN ITEMS EXE SHARED MODULE)
        set(CMAKE_${_kind}_LINKER_FLAGS_INIT -fuse-ld=${_linker})
      endforeach()
      break()
    endif()
  endforeach()
endmacro()
