// SPDX-License-Identifier: Apache-2.0
// Sends any frames to the launcher's store, and parses any message of a
// machine.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "accelerate/error.h"
#include "base/hmac.h"
#include "base/store_protocol.h"
#include "launch/failure_json.h"
#include "launch/machine_rendezvous.h"
#include "launch/store_core.h"
#include "launch/store_data.h"

namespace {

using namespace accelerate;

// Handles one frame after the other, as sent by a client.
void feed_store(std::string_view bytes) {
  StoreData data;
  store::Reader reader(bytes);
  while (reader.ok() && !reader.rest().empty()) {
    const std::string_view frame = reader.string();
    if (!reader.ok() || frame.empty()) {
      return;
    }
    const StoreOutcome outcome =
        data.handle(static_cast<store::Request>(frame[0]), frame.substr(1));
    if (outcome.kind == StoreOutcome::Kind::wait) {
      (void)data.first_missing(outcome.keys);
    }
  }
}

std::string proof_for(const std::string& server_nonce, char role) {
  const std::string nonce(store::kNonceBytes, 'n');
  store::Hello hello;
  hello.role = role % 4 == 1 ? store::Role::worker : store::Role::machine;
  const auto digest = hmac_sha256(
      "secret", store::signed_text("client", server_nonce, nonce, hello));
  return store::Writer()
      .raw(nonce)
      .number(static_cast<std::uint8_t>(hello.role))
      .number(hello.rank)
      .number(hello.generation)
      .raw({reinterpret_cast<const char*>(digest.data()), digest.size()})
      .take();
}

// If the first byte is odd, the client has proved that it knows the secret;
// otherwise it is a stranger. The bytes arrive in chunks, as from a network.
void feed_core(std::string_view bytes) {
  std::string greeting;
  StoreCore core("secret", [&](std::uint64_t, std::string_view sent) {
    if (greeting.empty()) {
      greeting = sent;
    }
  });
  core.set_exchange([](const StoreExchange& exchange) {
    return std::optional(exchange.payload);
  });
  core.on_connect(1, "10.0.0.1:1");
  std::string incoming;
  if (!bytes.empty() && bytes[0] % 2 != 0) {
    incoming = proof_for(greeting.substr(store::kMagic.size()), bytes[0]);
  }
  while (!bytes.empty()) {
    const std::size_t chunk = std::min<std::size_t>(bytes.size(), 97);
    incoming += bytes.substr(0, chunk);
    bytes.remove_prefix(chunk);
    if (core.on_bytes(1, incoming) == StoreCore::State::closing) {
      break;
    }
    core.end_overdue();
    (void)core.status();
  }
  core.start_generation(1);
  core.abort("the end");
  core.on_close(1);
}

void feed_machine(std::string_view bytes) {
  try {
    const Json json = Json::parse(bytes, {.max_depth = 16});
    MachineRendezvous rendezvous(2);
    (void)rendezvous.add(MachineInfo::from_json(json));
    (void)rendezvous.difference_text();
    (void)rendezvous.missing_text("here", 1);
  } catch (const FormatError&) {
    // Not the info of a machine.
  }
  try {
    const Failure failure =
        failure_from_json(Json::parse(bytes, {.max_depth = 16}));
    (void)failure_title(failure);
    (void)failure_body(failure);
  } catch (const FormatError&) {
    // Not a failure report.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(
    const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  feed_store(bytes);
  feed_core(bytes);
  feed_machine(bytes);
  return 0;
}
