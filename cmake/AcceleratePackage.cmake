# SPDX-License-Identifier: Apache-2.0
# Installs the parts that other projects can use: the public headers and the
# CMake package `accelerate`.

# Makes a library public: its users get its headers, C++20 and LibTorch.
#   accelerate_publish(<target> HEADERS <folder under include/>)
function(accelerate_publish target)
  cmake_parse_arguments(arg "" "HEADERS" "" ${ARGN})
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/include/${arg_HEADERS}/*.h)
  target_sources(${target} PUBLIC FILE_SET HEADERS
    BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES ${headers})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_link_libraries(${target}
    PUBLIC LibTorch::torch_cpu PRIVATE accelerate_flags)
  # `all_verify_interface_header_sets` compiles each header on its own.
  set_target_properties(${target} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
endfunction()

accelerate_publish(accelerate HEADERS accelerate)
accelerate_publish(accelerate_libtransformers HEADERS transformers)
set_target_properties(accelerate accelerate_libtransformers PROPERTIES
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

if(NOT ACCELERATE_INSTALL)
  return()
endif()

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/accelerate)

# Installed files find each other by relative paths, so the folder can be moved;
# LibTorch must stay where it is. The build tree has the same layout and uses
# the same paths. Otherwise, CMake would add empty elements to the paths of the
# build tree, for which the dynamic loader searches the current folder.
foreach(_library IN ITEMS accelerate accelerate_libtransformers accelerate_mpi
    accelerate_cuda accelerate_xla)
  if(TARGET ${_library})
    list(APPEND _installed ${_library})
    set_target_properties(${_library} PROPERTIES
      INSTALL_RPATH "$ORIGIN;${TORCH_DIR}/lib" BUILD_WITH_INSTALL_RPATH ON)
  endif()
endforeach()
install(TARGETS accelerate accelerate_libtransformers EXPORT accelerateTargets FILE_SET HEADERS)
if(TARGET accelerate_mpi)
  install(TARGETS accelerate_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET accelerate_xla)
  install(TARGETS accelerate_xla LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET accelerate_cuda)
  get_filename_component(_site ${TORCH_DIR} DIRECTORY)
  set_property(TARGET accelerate_cuda APPEND PROPERTY
    INSTALL_RPATH ${_site}/nvidia/cu13/lib)
  install(TARGETS accelerate_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET accelerate_cli)
  list(APPEND _installed accelerate_cli)
  set_target_properties(accelerate_cli PROPERTIES
    INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}" BUILD_WITH_INSTALL_RPATH ON)
  install(TARGETS accelerate_cli)
endif()

install(EXPORT accelerateTargets
  NAMESPACE accelerate:: DESTINATION ${_package_dir})
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/accelerateConfig.cmake.in
  ${PROJECT_BINARY_DIR}/package/accelerateConfig.cmake
  INSTALL_DESTINATION ${_package_dir})
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/package/accelerateConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/package/accelerateConfig.cmake
  ${PROJECT_BINARY_DIR}/package/accelerateConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindLibTorch.cmake
  DESTINATION ${_package_dir})

if(TARGET accelerate_jupyter_kernel)
  list(APPEND _installed accelerate_jupyter_kernel accelerate_interpreter)
endif()
if(TARGET self_test)
  list(APPEND _installed self_test)
endif()

# Builds exactly what `cmake --install` copies.
add_custom_target(accelerate_package DEPENDS ${_installed})
