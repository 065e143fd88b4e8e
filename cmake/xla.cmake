# SPDX-License-Identifier: Apache-2.0
# Whether libaccelerate_xla.so is built: it needs PJRT's C header.
# Sets ACCELERATE_XLA_FOUND and Pjrt_CPU_PLUGIN.
set(ACCELERATE_XLA_FOUND OFF)
if(ACCELERATE_XLA)
  if(ACCELERATE_XLA STREQUAL "AUTO")
    find_package(Pjrt 0.81 QUIET)
  else()
    find_package(Pjrt 0.81 REQUIRED)
  endif()
  set(ACCELERATE_XLA_FOUND ${Pjrt_FOUND})
  if(NOT Pjrt_FOUND)
    message(STATUS
      "libaccelerate_xla.so is not built: no PJRT header; run `make deps`")
  endif()
endif()
