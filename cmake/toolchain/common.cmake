# SPDX-License-Identifier: Apache-2.0
# The compiler cache and the linker for the toolchains of all presets. Included
# by the other files in this folder, but not by projects that embed this one.

# Finds the first of the named programs whose version is at least `minimum`.
function(accelerate_pick_compiler result minimum)
  foreach(name IN LISTS ARGN)
    find_program(_compiler_${name} ${name})
    if(NOT _compiler_${name})
      continue()
    endif()
    execute_process(COMMAND ${_compiler_${name}} -dumpfullversion -dumpversion
      OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(version VERSION_GREATER_EQUAL minimum)
      set(${result} ${_compiler_${name}} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${result} "" PARENT_SCOPE)
endfunction()

# Uses ccache if it is installed. Without this sloppiness setting, ccache does
# not cache files that use a precompiled header. The setting is safe because the
# sources do not use __TIME__.
find_program(ACCELERATE_CCACHE ccache)
if(ACCELERATE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    ${ACCELERATE_CCACHE})
endif()

# Uses a linker that is faster than the default, if there is one: most of the
# link time is spent reading the symbols of LibTorch's libraries.
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
