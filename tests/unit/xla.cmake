# SPDX-License-Identifier: Apache-2.0
# Tests of the XLA device, on the CPU plugin.
#
# The client is opened once per process: one process per binary and number of
# devices.
accelerate_add_tests(unit/xla_programs LIBS accelerate_xla_no_torch SHARDS 1
  TIMEOUT 120 SOURCES
  xla/client_test.cpp
  xla/compile_options_test.cpp
  xla/program_store_test.cpp
  xla/plugin_test.cpp
  xla/runner_test.cpp)
set(_plugins ${PROJECT_BINARY_DIR}/bin/tests/plugins)
target_link_libraries(accelerate_test_unit_xla_programs PRIVATE Pjrt::headers)
target_compile_definitions(accelerate_test_unit_xla_programs PRIVATE
  "XLA_CPU_PLUGIN=\"${Pjrt_CPU_PLUGIN}\"" "PJRT_FIXTURES=\"${_plugins}\"")

accelerate_add_tests(unit/xla_device PCH nn LIBS accelerate_xla_internals SHARDS 1
  TIMEOUT 300 ENVIRONMENT OMP_NUM_THREADS=1 SOURCES
  xla/device_test.cpp
  xla/operator_cases.cpp
  xla/operators_test.cpp
  xla/training_test.cpp
  xla/xla_device.cpp)
target_compile_definitions(accelerate_test_unit_xla_device PRIVATE
  "XLA_CPU_PLUGIN=\"${Pjrt_CPU_PLUGIN}\"")

# Libraries that are not a plugin of our version.
foreach(_fixture IN ITEMS no_entry other_version short_table)
  set(_target pjrt_fixture_${_fixture})
  add_library(${_target} MODULE EXCLUDE_FROM_ALL xla/plugin_fixture.cpp)
  accelerate_set_target_defaults(${_target})
  target_link_libraries(${_target} PRIVATE Pjrt::headers)
  string(TOUPPER ${_fixture} _macro)
  target_compile_definitions(${_target} PRIVATE FIXTURE_${_macro})
  set_target_properties(${_target} PROPERTIES
    PREFIX "" OUTPUT_NAME ${_fixture} LIBRARY_OUTPUT_DIRECTORY ${_plugins})
  add_dependencies(accelerate_test_unit_xla_programs ${_target})
endforeach()
