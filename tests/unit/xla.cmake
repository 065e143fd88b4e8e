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

# Most of the time is spent compiling small programs, so without optimization.
set(_environment OMP_NUM_THREADS=1 XLA_FLAGS=--xla_backend_optimization_level=0)
set(_xla PJRT_DEVICE=CPU PJRT_PLUGIN_PATH=${Pjrt_CPU_PLUGIN} ACCELERATE_XLA_STRICT=1)
# The fastest compilation: a third of that time again.
set(_fast_compilation OMP_NUM_THREADS=1 "XLA_FLAGS=--xla_backend_optimization_level=0 \
--xla_llvm_disable_expensive_passes=true --xla_cpu_parallel_codegen_split_count=1 \
--xla_cpu_use_fusion_emitters=false")
add_library(accelerate_test_xla_device STATIC EXCLUDE_FROM_ALL xla/xla_device.cpp)
accelerate_set_target_defaults(accelerate_test_xla_device PCH nn)
target_include_directories(accelerate_test_xla_device PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_compile_definitions(accelerate_test_xla_device PRIVATE
  "XLA_CPU_PLUGIN=\"${Pjrt_CPU_PLUGIN}\"")
target_link_libraries(accelerate_test_xla_device PUBLIC accelerate_xla_internals)
accelerate_add_tests(unit/xla_device PCH nn LIBS accelerate_test_xla_device SHARDS 1
  TIMEOUT 120 ENVIRONMENT ${_environment} SOURCES
  xla/device_test.cpp)
# The library as a program loads it. It uses libaccelerate.so, so this program
# links no internals but the loader.
accelerate_add_archive(accelerate_xla_loader
  ${PROJECT_SOURCE_DIR}/src/base/plugin.cpp
  ${PROJECT_SOURCE_DIR}/src/device/xla_library.cpp)
accelerate_set_target_defaults(accelerate_xla_loader PCH tensor)
accelerate_add_tests(unit/xla_library PCH nn SHARDS 1
  LIBS accelerate_xla_loader accelerate::accelerate accelerate_torch
  TIMEOUT 120 ENVIRONMENT ${_environment} SOURCES
  xla/library_test.cpp)
add_dependencies(accelerate_test_unit_xla_library accelerate_xla)
target_compile_definitions(accelerate_test_unit_xla_library PRIVATE
  "XLA_CPU_PLUGIN=\"${Pjrt_CPU_PLUGIN}\""
  "XLA_LIBRARY=\"$<TARGET_FILE:accelerate_xla>\"")
accelerate_add_tests(unit/xla_operators PCH nn LIBS accelerate_test_xla_device SHARDS 2
  TIMEOUT 300 ENVIRONMENT ${_environment} SOURCES
  xla/operator_cases.cpp
  xla/operators_test.cpp)
accelerate_add_tests(unit/xla_training PCH nn LIBS accelerate_test_xla_device SHARDS 2
  TIMEOUT 300 ENVIRONMENT ${_environment} SOURCES
  xla/training_loop.cpp
  xla/training_test.cpp)

# The same loops with every batch divided over two devices.
add_test(NAME unit/xla_training.two_devices
  COMMAND accelerate_test_unit_xla_training)
set_tests_properties(unit/xla_training.two_devices PROPERTIES
  LABELS unit TIMEOUT 300 PROCESSORS 2
  ENVIRONMENT "${_environment};ACCELERATE_TEST_XLA_DEVICES=2")

# An Accelerator on XLA, in programs that use only libaccelerate.so.
accelerate_add_tests(unit/xla_accelerator PCH nn SHARDS 1
  LIBS accelerate_xla_loader accelerate::accelerate accelerate_torch
  TIMEOUT 300 ENVIRONMENT ${_environment} ${_xla} CPU_NUM_DEVICES=1
  SOURCES xla/accelerator_test.cpp)
add_dependencies(accelerate_test_unit_xla_accelerator accelerate_xla)
target_compile_definitions(accelerate_test_unit_xla_accelerator PRIVATE
  "XLA_LIBRARY=\"$<TARGET_FILE:accelerate_xla>\"")
add_test(NAME unit/xla_accelerator.two_devices
  COMMAND accelerate_test_unit_xla_accelerator)
set_tests_properties(unit/xla_accelerator.two_devices PROPERTIES
  LABELS unit TIMEOUT 300 PROCESSORS 2
  ENVIRONMENT "${_environment};${_xla};CPU_NUM_DEVICES=2")
accelerate_add_tests(unit/xla_late_choice PCH tensor
  LIBS accelerate::accelerate accelerate_torch
  ENVIRONMENT ${_environment} PJRT_PLUGIN_PATH=${Pjrt_CPU_PLUGIN}
  SOURCES xla/late_choice_test.cpp)
add_dependencies(accelerate_test_unit_xla_late_choice accelerate_xla)
target_compile_definitions(accelerate_test_unit_xla_late_choice PRIVATE
  "ACCELERATE_LIBRARY=\"$<TARGET_FILE:accelerate>\"")

# Small models of every family. With ACCELERATE_XLA_ALL_MODELS=1 (`make
# ci-full`): also SGD and fp32.
accelerate_add_tests(unit/xla_models PCH nn SHARDS 2
  LIBS accelerate_test_xla_device accelerate_transformers_internals
  TIMEOUT 900 ENVIRONMENT ${_fast_compilation} SOURCES
  xla/models_test.cpp
  xla/training_loop.cpp)

# With every batch divided over four devices.
add_test(NAME unit/xla_models.four_devices
  COMMAND accelerate_test_unit_xla_models)
set_tests_properties(unit/xla_models.four_devices PROPERTIES
  LABELS unit TIMEOUT 900 PROCESSORS 2
  ENVIRONMENT "${_fast_compilation};ACCELERATE_TEST_XLA_DEVICES=4")

# Random programs: a hundred, or ACCELERATE_XLA_FUZZ_PROGRAMS.
accelerate_add_tests(unit/xla_fuzz PCH nn LIBS accelerate_test_xla_device SHARDS 1
  TIMEOUT 900 ENVIRONMENT ${_fast_compilation} SOURCES
  xla/fuzz_draw.cpp
  xla/fuzz_operators.cpp
  xla/fuzz_program.cpp
  xla/fuzz_test.cpp)

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
