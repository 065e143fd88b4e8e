# SPDX-License-Identifier: Apache-2.0
# How tests, examples and benchmarks are built. Each test has a time limit, so
# nothing that ctest starts can hang a run.

# Adds one binary of GoogleTest tests, named after its folder under tests/.
# Each TEST(Subject, Name) becomes the ctest test `<suite>/<rest>.Subject.Name`
# with the suite as its label.
#
#   accelerate_add_tests(unit/base SOURCES json_test.cpp …
#     [LIBS accelerate_no_torch]  default: accelerate_internals, with LibTorch
#     [PCH tensor|comm|nn]        required if a source includes LibTorch
#     [LABELS gpu …] [TIMEOUT 60] [PROCESSORS 1]
#     [ENVIRONMENT NAME=value …]
#     [SHARDS 2])                 run in this many processes instead of one per
#                                 TEST: for hundreds of short tests, since
#                                 loading LibTorch takes 0.25 s
#
# Sources are compiled eight at a time (a unity build), so names in anonymous
# namespaces must differ within a binary.
function(accelerate_add_tests folder)
  cmake_parse_arguments(arg "" "PCH;TIMEOUT;PROCESSORS;SHARDS"
    "SOURCES;LIBS;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "accelerate_add_tests(${folder}): no SOURCES, or "
      "unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  accelerate_default(arg_LIBS accelerate_internals)
  accelerate_default(arg_TIMEOUT 60)
  accelerate_default(arg_PROCESSORS 1)
  if(ACCELERATE_SANITIZER)
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 5")  # Sanitizers slow down code.
  endif()
  string(REPLACE / _ name ${folder})
  string(REGEX REPLACE "/.*" "" suite ${folder})
  set(target accelerate_test_${name})

  add_executable(${target} ${arg_SOURCES})
  accelerate_set_target_defaults(${target} PCH ${arg_PCH})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${target} PRIVATE ${arg_LIBS} GTest::gmock_main)
  if(accelerate_internals IN_LIST arg_LIBS)
    target_link_libraries(${target} PRIVATE accelerate_torch)
  endif()
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME ${name}
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin/tests
    UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  accelerate_join_suite(${target} ${suite})

  set(properties TIMEOUT PROCESSORS LABELS ENVIRONMENT)
  set(arg_LABELS ${suite} ${arg_LABELS})
  if(arg_SHARDS)
    accelerate_add_shards(${target} ${folder} ${arg_SHARDS} names)
    foreach(property IN LISTS properties)
      set_property(TEST ${names} PROPERTY ${property} ${arg_${property}})
    endforeach()
    return()
  endif()

  gtest_discover_tests(${target}
    TEST_PREFIX ${folder}. TEST_LIST ${target}_tests
    DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 30)
  # gtest_discover_tests breaks property values that are lists, so a second
  # file, which ctest reads after the generated file, sets the properties.
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${target}_properties.cmake)
  file(WRITE ${file} "if(${target}_tests)\n")
  foreach(property IN LISTS properties)
    file(APPEND ${file} "  set_tests_properties(\${${target}_tests} "
      "PROPERTIES ${property} [==[${arg_${property}}]==])\n")
  endforeach()
  file(APPEND ${file} "endif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${file})
endfunction()

# Distributes the tests in a binary over `count` processes.
function(accelerate_add_shards target folder count names)
  math(EXPR last "${count} - 1")
  foreach(shard RANGE ${last})
    set(test ${folder}.shard_${shard})
    add_test(NAME ${test} COMMAND
      ${CMAKE_COMMAND} -E env GTEST_TOTAL_SHARDS=${count}
      GTEST_SHARD_INDEX=${shard} $<TARGET_FILE:${target}>)
    list(APPEND tests ${test})
  endforeach()
  set(${names} ${tests} PARENT_SCOPE)
endfunction()

# Adds the example `examples/<name>.cpp`. It is built into build/bin/examples/,
# and ctest runs it with the given arguments.
#
#   accelerate_add_example(collectives [ARGS …] [TIMEOUT 60] [LIBS …])
function(accelerate_add_example name)
  cmake_parse_arguments(arg "" "TIMEOUT" "ARGS;LIBS" ${ARGN})
  accelerate_default(arg_TIMEOUT 60)
  accelerate_default(arg_LIBS accelerate::accelerate)
  get_filename_component(target ${name} NAME)
  add_executable(${target} ${name}.cpp)
  target_link_libraries(${target} PRIVATE accelerate_flags ${arg_LIBS})
  set_target_properties(${target} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin/examples)
  if(ACCELERATE_TESTS)
    add_test(NAME examples/${name} COMMAND ${target} ${arg_ARGS})
    # One thread, because tests run in parallel and more threads would compete
    # for the cores.
    set_tests_properties(examples/${name} PROPERTIES
      LABELS examples TIMEOUT ${arg_TIMEOUT} ENVIRONMENT OMP_NUM_THREADS=1)
  endif()
endfunction()

# Adds the benchmark `benchmarks/<name>.cpp`, built into build/bin/benchmarks/.
#
#   accelerate_add_benchmark(allreduce [SOURCES …] [PCH …] [LIBS …])
function(accelerate_add_benchmark name)
  cmake_parse_arguments(arg "" "PCH" "SOURCES;LIBS" ${ARGN})
  accelerate_default(arg_SOURCES ${name}.cpp)
  accelerate_default(arg_LIBS accelerate_internals)
  set(target accelerate_benchmark_${name})
  add_executable(${target} ${arg_SOURCES})
  accelerate_set_target_defaults(${target} PCH ${arg_PCH})
  target_link_libraries(${target} PRIVATE ${arg_LIBS})
  if(accelerate_internals IN_LIST arg_LIBS)
    target_link_libraries(${target} PRIVATE accelerate_torch)
  endif()
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME ${name}
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin/benchmarks)
  if(NOT TARGET benchmarks)
    add_custom_target(benchmarks)
  endif()
  add_dependencies(benchmarks ${target})
endfunction()

# Adds a program that tests start: built with the suite, but not a test itself.
#   accelerate_add_test_program(<suite> <name> SOURCES … [LIBS …] [PCH …])
function(accelerate_add_test_program suite name)
  cmake_parse_arguments(arg "" "PCH" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  accelerate_set_target_defaults(${name} PCH ${arg_PCH})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${arg_LIBS})
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin/tests)
  accelerate_join_suite(${name} ${suite})
endfunction()

# The target `accelerate_tests_<suite>` builds all programs that one suite
# needs. The sanitizer presets build only such targets.
function(accelerate_join_suite target suite)
  if(NOT TARGET accelerate_tests_${suite})
    add_custom_target(accelerate_tests_${suite})
  endif()
  add_dependencies(accelerate_tests_${suite} ${target})
endfunction()

function(accelerate_default variable value)
  if(NOT DEFINED ${variable})
    set(${variable} ${value} PARENT_SCOPE)
  endif()
endfunction()
