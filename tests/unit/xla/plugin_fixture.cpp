// SPDX-License-Identifier: Apache-2.0
// Libraries that plugin_test.cpp loads: without the entry point, with another
// version of the interface, and with a table that ends early.
#include <pjrt_c_api.h>

namespace {

PJRT_Api make_table() {
  PJRT_Api table{};
  table.struct_size = PJRT_Api_STRUCT_SIZE;
  table.pjrt_api_version.struct_size = PJRT_Api_Version_STRUCT_SIZE;
  table.pjrt_api_version.major_version = PJRT_API_MAJOR;
  table.pjrt_api_version.minor_version = PJRT_API_MINOR;
#ifdef FIXTURE_OTHER_VERSION
  table.pjrt_api_version.major_version = 7;
#endif
#ifdef FIXTURE_SHORT_TABLE
  table.struct_size = offsetof(PJRT_Api, PJRT_Plugin_Initialize);
  table.pjrt_api_version.minor_version = 3;
#endif
  return table;
}

}  // namespace

#ifdef FIXTURE_NO_ENTRY
#define ENTRY SomeOtherName
#else
#define ENTRY GetPjrtApi
#endif

extern "C" __attribute__((visibility("default"))) const PJRT_Api* ENTRY();

const PJRT_Api* ENTRY() {
  static const PJRT_Api table = make_table();
  return &table;
}
