# SPDX-License-Identifier: Apache-2.0
# The CUDA library: whether it is built, and how its kernels are compiled.
#
# libaccelerate_cuda.so is built if a CUDA 13 toolkit and NCCL's header are
# installed, with or without a GPU; ACCELERATE_CUDA_FOUND is then ON. Otherwise
# nothing in src/cuda is built. libaccelerate.so is the same in both cases.

set(ACCELERATE_CUDA AUTO CACHE STRING "Build the CUDA library: ON, OFF or AUTO")
set(ACCELERATE_CUDA_ARCHITECTURES 90-real CACHE STRING
  "GPU architectures to compile kernels for; a release uses 80-real 90-real 100")

set(ACCELERATE_CUDA_FOUND OFF)
set(_cuda_missing "")
if(ACCELERATE_CUDA STREQUAL AUTO AND ACCELERATE_SANITIZER)
  set(_cuda_missing "sanitizers are on")
elseif(NOT ACCELERATE_CUDA)
  set(_cuda_missing "ACCELERATE_CUDA is off")
elseif(NOT TARGET LibTorch::torch_cuda)
  set(_cuda_missing "LibTorch in ${TORCH_DIR} is built without CUDA")
else()
  # CMake 3.25 sets a property on this target, which toolkit 13 does not have.
  if(NOT TARGET CUDA::nvToolsExt)
    add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
  endif()
  find_package(CUDAToolkit 13 QUIET)
  find_path(ACCELERATE_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS}
    ${TORCH_DIR}/../nvidia/nccl/include)
  if(NOT CUDAToolkit_FOUND OR NOT CUDAToolkit_NVCC_EXECUTABLE)
    set(_cuda_missing "no CUDA toolkit 13 or later with nvcc was found")
  elseif(NOT ACCELERATE_NCCL_INCLUDE)
    set(_cuda_missing "nccl.h was not found")
  else()
    set(ACCELERATE_CUDA_FOUND ON)
  endif()
endif()

if(NOT ACCELERATE_CUDA_FOUND)
  if(ACCELERATE_CUDA AND NOT ACCELERATE_CUDA STREQUAL AUTO)
    message(FATAL_ERROR "ACCELERATE_CUDA is on, but ${_cuda_missing}")
  endif()
  message(STATUS "CUDA library: not built, ${_cuda_missing}")
  return()
endif()
message(STATUS "CUDA library: toolkit ${CUDAToolkit_VERSION}, "
  "kernels for ${ACCELERATE_CUDA_ARCHITECTURES}")

# nvcc rejects host compilers newer than itself; it supports g++ 12 to 15.
find_program(ACCELERATE_CUDA_HOST_COMPILER NAMES g++ g++-12 g++-13 g++-14)

set(_cuda_flags -std=c++20 -O3 -lineinfo --expt-relaxed-constexpr
  -ccbin ${ACCELERATE_CUDA_HOST_COMPILER} -cudart shared
  -I${PROJECT_SOURCE_DIR}/src
  -Xcompiler=-fPIC,-fvisibility=hidden,-Wall,-Wextra,-Wshadow
  -Xcompiler=-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
if(ACCELERATE_WERROR)
  list(APPEND _cuda_flags -Werror=all-warnings)
endif()
set(_cuda_architectures "")
foreach(_architecture IN LISTS ACCELERATE_CUDA_ARCHITECTURES)
  string(REPLACE -real "" _number ${_architecture})
  if(_architecture MATCHES -real)
    list(APPEND _cuda_flags
      -gencode=arch=compute_${_number},code=sm_${_number})
  else()
    list(APPEND _cuda_flags
      "-gencode=arch=compute_${_number},code=[compute_${_number},sm_${_number}]")
  endif()
  string(APPEND _cuda_architectures " sm_${_number}")
endforeach()
string(STRIP "${_cuda_architectures}" _cuda_architectures)
list(APPEND _cuda_flags
  "-DACCELERATE_KERNEL_ARCHITECTURES=\"${_cuda_architectures}\"")
set(ACCELERATE_NVCC_FLAGS "${_cuda_flags}" CACHE INTERNAL "")

# Adds a static library of kernels: `.cu` files, plain CUDA without ATen. Custom
# commands compile the files. CMake's CUDA language is not used, because
# enabling it links a test program with nvcc, which rejects the linker flags in
# the presets.
#   accelerate_add_kernels(<target> <file.cu>…)
function(accelerate_add_kernels target)
  set(launcher "")
  if(ACCELERATE_CCACHE)
    set(launcher ${ACCELERATE_CCACHE})
  endif()
  set(objects "")
  foreach(source IN LISTS ARGN)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${target}.dir/${source}.o)
    get_filename_component(folder ${object} DIRECTORY)
    file(MAKE_DIRECTORY ${folder})
    add_custom_command(OUTPUT ${object}
      COMMAND ${launcher} ${CUDAToolkit_NVCC_EXECUTABLE}
        ${ACCELERATE_NVCC_FLAGS} -MD -MF ${object}.d -MT ${object}
        -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source}
      DEPFILE ${object}.d
      COMMENT "Building CUDA object ${source}"
      VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  add_library(${target} STATIC EXCLUDE_FROM_ALL ${objects})
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  target_include_directories(${target} INTERFACE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target} INTERFACE CUDA::cudart CUDA::cublasLt)
endfunction()
