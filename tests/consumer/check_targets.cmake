# SPDX-License-Identifier: Apache-2.0
# Run at the end of the embedding project: no target of ours may take a name
# that the project could want for itself.
function(check_targets folder)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    if(NOT target MATCHES "^(accelerate|accelerate_.*|consumer)$")
      message(SEND_ERROR "target `${target}` of ${folder} lacks our prefix")
    endif()
  endforeach()
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(subfolder IN LISTS folders)
    check_targets(${subfolder})
  endforeach()
endfunction()

cmake_language(DEFER DIRECTORY ${CMAKE_SOURCE_DIR}
  CALL check_targets ${CMAKE_SOURCE_DIR})
