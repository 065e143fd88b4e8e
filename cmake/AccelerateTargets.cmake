# SPDX-License-Identifier: Apache-2.0
# How every target of the project is built: flags, precompiled headers, layers.

# The compiler flags for the code of this project: warnings and sanitizers.
add_library(accelerate_flags INTERFACE)
target_compile_features(accelerate_flags INTERFACE cxx_std_20)
target_compile_options(accelerate_flags INTERFACE
  # For libraries and programs, so that both can share a precompiled header.
  -fPIC
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
  # LibTorch's logging macros use `##__VA_ARGS__`, for which -Wpedantic prints
  # warnings in code that uses the macros.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-gnu-zero-variadic-macro-arguments>
  # Keeps the path of the source tree out of messages and installed files.
  -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=
  $<$<BOOL:${ACCELERATE_WERROR}>:-Werror>)
# FORTIFY needs optimization. tools/check_hardening.py checks the result.
if(ACCELERATE_HARDENING)
  target_compile_options(accelerate_flags INTERFACE
    -fstack-protector-strong
    "$<$<CONFIG:Release,RelWithDebInfo,MinSizeRel>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>")
  target_link_options(accelerate_flags INTERFACE -Wl,-z,relro -Wl,-z,now)
endif()
if(ACCELERATE_SANITIZER)
  set(_sanitize -fsanitize=${ACCELERATE_SANITIZER} -fno-omit-frame-pointer)
  if(ACCELERATE_SANITIZER MATCHES undefined)
    # LibTorch is built without the type information that `vptr` needs.
    list(APPEND _sanitize -fno-sanitize=vptr -fno-sanitize-recover=undefined)
  endif()
  target_compile_options(accelerate_flags INTERFACE ${_sanitize})
  target_link_options(accelerate_flags INTERFACE ${_sanitize})
endif()

add_library(accelerate_torch INTERFACE)
target_link_libraries(accelerate_torch INTERFACE LibTorch::torch_cpu)

set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_CXX_EXTENSIONS OFF)

# Three precompiled headers, shared by every target that needs one of them:
# `tensor` for most code, `comm` for process groups, `nn` for modules.
foreach(_pch IN ITEMS tensor comm nn)
  set(_source ${PROJECT_BINARY_DIR}/pch/${_pch}.cpp)
  if(NOT EXISTS ${_source})
    file(WRITE ${_source} "// Carries the precompiled header `${_pch}.h`.\n")
  endif()
  add_library(accelerate_pch_${_pch} OBJECT EXCLUDE_FROM_ALL ${_source})
  target_link_libraries(accelerate_pch_${_pch}
    PRIVATE accelerate_flags accelerate_torch)
  target_precompile_headers(accelerate_pch_${_pch}
    PRIVATE ${PROJECT_SOURCE_DIR}/cmake/pch/${_pch}.h)
endforeach()

# Gives a target the project's flags, the private include folder and, with PCH,
# a precompiled header and LibTorch.
#   accelerate_set_target_defaults(<target> [PCH tensor|comm|nn])
function(accelerate_set_target_defaults target)
  cmake_parse_arguments(arg "" "PCH" "" ${ARGN})
  target_include_directories(${target} PRIVATE
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target} PRIVATE accelerate_flags)
  if(arg_PCH)
    target_link_libraries(${target} PRIVATE accelerate_torch)
    target_precompile_headers(${target} REUSE_FROM accelerate_pch_${arg_PCH})
  endif()
endfunction()

# Compiles several sources of a target together if ACCELERATE_UNITY is on:
# parsing headers is most of the cost of compiling a source. Names in anonymous
# namespaces must then differ within the target.
function(accelerate_enable_unity_build target)
  if(NOT ACCELERATE_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  # g++ treats the included sources as headers and warns about classes that
  # have members of types in an anonymous namespace.
  target_compile_options(${target} PRIVATE
    $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()

# Adds the current folder of `src/` with all its sources, compiled once and
# linked into every target that needs it. A layer becomes part of
# libaccelerate.so unless it is SEPARATE.
#
#   accelerate_add_layer(<layer> [SEPARATE] [UNITY] [PCH tensor|comm|nn]
#     [EXCEPT <folder>…]           folders that are not part of the layer
#     [WITHOUT_PCH <source>…])     sources that do not use LibTorch: reading its
#                                  precompiled header takes longer than
#                                  compiling them
function(accelerate_add_layer layer)
  cmake_parse_arguments(arg "SEPARATE;UNITY" "PCH" "EXCEPT;WITHOUT_PCH" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cpp)
  foreach(folder IN LISTS arg_EXCEPT)
    list(FILTER sources EXCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/${folder}/")
  endforeach()
  add_library(accelerate_${layer} OBJECT ${sources})
  accelerate_set_target_defaults(accelerate_${layer} PCH ${arg_PCH})
  set_source_files_properties(${arg_WITHOUT_PCH} PROPERTIES
    SKIP_PRECOMPILE_HEADERS ON)
  if(arg_UNITY)
    accelerate_enable_unity_build(accelerate_${layer})
  endif()
  if(NOT arg_SEPARATE)
    set_property(GLOBAL APPEND PROPERTY accelerate_layers ${layer})
  endif()
endfunction()

# Adds an archive of object files, which is built only if something needs it.
#   accelerate_add_archive(<target> <objects>…)
function(accelerate_add_archive target)
  add_library(${target} STATIC EXCLUDE_FROM_ALL ${ARGN})
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
endfunction()
