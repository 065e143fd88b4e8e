# SPDX-License-Identifier: Apache-2.0
# Runs at the end of the embedding project. All targets of this library must
# have its prefix, so that they do not clash with the project's own targets.
function(check_targets folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    if(NOT target MATCHES "^(accelerate|accelerate_.*|consumer)$")
      message(SEND_ERROR
        "target `${target}` in ${folder} does not start with `accelerate_`")
    endif()
  endforeach()
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(subfolder IN LISTS folders)
    check_targets(${subfolder})
  endforeach()
endfunction()

cmake_language(DEFER DIRECTORY ${CMAKE_SOURCE_DIR}
  CALL check_targets ${CMAKE_SOURCE_DIR})
