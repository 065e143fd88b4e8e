// SPDX-License-Identifier: Apache-2.0
// The state that a client shares with its buffers and programs. Only the
// sources in this folder include this header.
#pragma once

#include <memory>
#include <vector>

#include "xla/element_type.h"
#include "xla/pjrt/client.h"
#include "xla/pjrt/plugin_api.h"

namespace accelerate::xla {

class ClientHandle {
 public:
  ClientHandle(
      std::shared_ptr<const PluginApi> plugin_api, PJRT_Client* pjrt_client)
      : api(std::move(plugin_api)), client(pjrt_client) {}
  ClientHandle(const ClientHandle&) = delete;
  ClientHandle& operator=(const ClientHandle&) = delete;
  ~ClientHandle() {
    ACCELERATE_PJRT_ARGS(Client_Destroy, args);
    args.client = client;
    ACCELERATE_PJRT_DESTROY(*api, Client_Destroy, args);
  }

  const std::shared_ptr<const PluginApi> api;
  PJRT_Client* const client;
  std::vector<PJRT_Device*> devices;
};

PJRT_Buffer_Type pjrt_type(ElementType type);
/// Returns the element type for a PJRT type. Throws `UnsupportedError` if there
/// is none.
ElementType element_type(PJRT_Buffer_Type type);

/// Returns the dense row-major layout of an array with `rank` dimensions. Fills
/// `indices`, which the result points to.
PJRT_Buffer_MemoryLayout row_major(
    std::size_t rank, std::vector<std::int64_t>& indices);

}  // namespace accelerate::xla
