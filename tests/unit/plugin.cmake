# SPDX-License-Identifier: Apache-2.0
# Tests of the plugin loader, with compatible and incompatible libraries.

# Links the shared library, because the loader searches its folder.
accelerate_add_tests(unit/comm/plugin LIBS accelerate
  SOURCES comm/plugin_test.cpp)
set(_plugins ${PROJECT_BINARY_DIR}/bin/tests/plugins)
target_compile_definitions(accelerate_test_unit_comm_plugin PRIVATE
  "FIXTURE_FOLDER=\"${_plugins}\""
  "LIBRARY_FOLDER=\"${CMAKE_LIBRARY_OUTPUT_DIRECTORY}\"")

#   _plugin_fixture(<name> <abi> <LibTorch version> <entry>)
function(_plugin_fixture name abi torch_version entry)
  set(target plugin_fixture_${name})
  add_library(${target} MODULE EXCLUDE_FROM_ALL comm/plugin_fixture.cpp)
  accelerate_set_target_defaults(${target})
  target_compile_definitions(${target} PRIVATE FIXTURE_ABI=${abi}
    "FIXTURE_TORCH_VERSION=\"${torch_version}\"" FIXTURE_ENTRY=${entry})
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME accelerate_${name} LIBRARY_OUTPUT_DIRECTORY ${_plugins})
  add_dependencies(accelerate_test_unit_comm_plugin ${target})
endfunction()
set(_entry accelerate_backend_plugin)
set(_abi accelerate::kPluginAbi)
_plugin_fixture(compatible ${_abi} ${LibTorch_VERSION} ${_entry})
_plugin_fixture(other_abi 4711 ${LibTorch_VERSION} ${_entry})
_plugin_fixture(other_torch ${_abi} 1.0.0 ${_entry})
_plugin_fixture(no_entry ${_abi} ${LibTorch_VERSION} some_other_name)
