# SPDX-License-Identifier: Apache-2.0
# Tests with real processes under mpirun. Without MPI, only the test driver is
# built, which then skips its tests.
if(TARGET accelerate_mpi)
  # Links the shared library, because a plugin throws its error types.
  accelerate_add_test_program(process mpi_suite PCH comm
    LIBS accelerate GTest::gtest SOURCES
    mpi_suite.cpp
    mpi_suite_calls.cpp
    mpi_suite_groups.cpp)
  accelerate_add_test_program(process mpi_faults PCH comm
    LIBS accelerate SOURCES mpi_faults.cpp)
  accelerate_add_test_program(process mpi_group_faults PCH comm
    LIBS accelerate SOURCES mpi_group_faults.cpp)
  add_dependencies(mpi_group_faults accelerate_mpi)
  add_dependencies(mpi_suite accelerate_mpi)
  add_dependencies(mpi_faults accelerate_mpi)
  # Some ranks of this program initialize MPI themselves.
  set(MPI_CXX_SKIP_MPICXX TRUE)
  find_package(MPI REQUIRED COMPONENTS CXX)
  target_link_libraries(mpi_faults PRIVATE MPI::MPI_CXX)
endif()

accelerate_add_tests(process/mpi LIBS GTest::gtest TIMEOUT 300 PROCESSORS 3
  SOURCES mpi_group_test.cpp mpi_test.cpp)
target_include_directories(accelerate_test_process_mpi PRIVATE
  ${PROJECT_SOURCE_DIR}/tests)
target_compile_definitions(accelerate_test_process_mpi PRIVATE
  "PROGRAM_FOLDER=\"${PROJECT_BINARY_DIR}/bin/tests\"")
if(TARGET accelerate_mpi)
  add_dependencies(accelerate_test_process_mpi
    mpi_faults mpi_group_faults mpi_suite)
endif()

# The conformance checks, through the group that PartialState creates under
# mpirun.
accelerate_add_test_program(process group_suite PCH comm LIBS accelerate SOURCES
  group_suite.cpp
  ${PROJECT_SOURCE_DIR}/tests/support/conformance.cpp
  ${PROJECT_SOURCE_DIR}/tests/support/large_collectives.cpp
  ${PROJECT_SOURCE_DIR}/tests/support/listening.cpp
  ${PROJECT_SOURCE_DIR}/tests/support/mixed_collectives.cpp
  ${PROJECT_SOURCE_DIR}/tests/support/plain_collectives.cpp
  ${PROJECT_SOURCE_DIR}/tests/support/rank_order.cpp)
find_program(ACCELERATE_MPIRUN mpirun)
if(TARGET accelerate_mpi AND ACCELERATE_MPIRUN)
  add_dependencies(group_suite accelerate_mpi)
  add_test(NAME process/mpi.group_suite COMMAND
    ${ACCELERATE_MPIRUN} --allow-run-as-root --oversubscribe -n 3
    $<TARGET_FILE:group_suite> mpi)
  set_tests_properties(process/mpi.group_suite PROPERTIES
    LABELS process TIMEOUT 300 PROCESSORS 2
    PASS_REGULAR_EXPRESSION "all checks passed on 3 ranks")
endif()
