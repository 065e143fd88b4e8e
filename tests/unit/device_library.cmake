# SPDX-License-Identifier: Apache-2.0
# Device libraries with matching and with different versions, for unit/device.
set(_devices ${PROJECT_BINARY_DIR}/bin/tests/devices)
target_compile_definitions(accelerate_test_unit_device PRIVATE
  "DEVICE_FIXTURES=\"${_devices}\"")

#   _device_fixture(<name> <abi> <blocks> <LibTorch version> <entry>)
function(_device_fixture name abi blocks torch_version entry)
  set(target device_fixture_${name})
  add_library(${target} MODULE EXCLUDE_FROM_ALL device/device_fixture.cpp)
  accelerate_set_target_defaults(${target} PCH tensor)
  target_compile_definitions(${target} PRIVATE FIXTURE_ABI=${abi}
    FIXTURE_BLOCKS=${blocks} "FIXTURE_TORCH_VERSION=\"${torch_version}\""
    FIXTURE_ENTRY=${entry})
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME accelerate_device_${name} LIBRARY_OUTPUT_DIRECTORY ${_devices})
  add_dependencies(accelerate_test_unit_device ${target})
endfunction()
set(_entry accelerate_device_plugin)
set(_abi accelerate::kDeviceAbi)
set(_blocks accelerate::kFusedBlocksVersion)
_device_fixture(compatible ${_abi} ${_blocks} ${LibTorch_VERSION} ${_entry})
_device_fixture(other_abi 4711 ${_blocks} ${LibTorch_VERSION} ${_entry})
_device_fixture(other_blocks ${_abi} 4711 ${LibTorch_VERSION} ${_entry})
_device_fixture(other_torch ${_abi} ${_blocks} 1.0.0 ${_entry})
_device_fixture(no_entry ${_abi} ${_blocks} ${LibTorch_VERSION}
  some_other_name)
