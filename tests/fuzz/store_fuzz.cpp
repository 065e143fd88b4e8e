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
#include "base/store_session.h"
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

store::SessionKeys append_hello(
    const std::string& greeting, char role, std::string& bytes) {
  store::Handshake handshake;
  handshake.run_id = "run";
  handshake.server_nonce =
      greeting.substr(store::kMagic.size(), store::kNonceBytes);
  handshake.client_nonce = std::string(store::kNonceBytes, 'n');
  store::Hello& hello = handshake.hello;
  hello.role = role % 4 == 1 ? store::Role::worker : store::Role::machine;
  const auto keys = store::derive_keys("secret", handshake);
  bytes += store::Writer()
               .raw(handshake.client_nonce)
               .number(static_cast<std::uint8_t>(hello.role))
               .number(hello.rank)
               .number(hello.generation)
               .raw(as_text(keys.client_proof))
               .take();
  return keys;
}

// Seals the frames in `bytes`, which have a u32 length, a code and a payload.
std::string sealed_frames(std::string_view bytes, const Digest& key) {
  store::FrameSealer sealer(key);
  std::string result;
  store::Reader reader(bytes);
  while (reader.ok() && !reader.rest().empty()) {
    const auto length = reader.number<std::uint32_t>();
    const std::string_view content =
        reader.raw(std::min<std::size_t>(length, reader.rest().size()));
    if (reader.ok() && !content.empty()) {
      result +=
          sealer.seal(static_cast<std::uint8_t>(content[0]), content.substr(1));
    }
  }
  return result;
}

// If the first byte is odd, the client has proved that it has the secret, and
// seals its frames; otherwise, the client is not authenticated. The bytes
// arrive in chunks, as from a network.
void feed_core(std::string_view bytes) {
  std::string greeting;
  StoreCore core("secret", "run", [&](std::uint64_t, std::string_view sent) {
    if (greeting.empty()) {
      greeting = sent;
    }
  });
  core.set_exchange([](const StoreExchange& exchange) {
    return std::optional(exchange.payload);
  });
  core.on_connect(1, "10.0.0.1:1");
  std::string incoming;
  std::string sealed;
  if (!bytes.empty() && bytes[0] % 2 != 0) {
    const auto keys = append_hello(greeting, bytes[0], incoming);
    sealed = sealed_frames(bytes, keys.requests);
    bytes = sealed;
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
    // The input is not a valid `MachineInfo`.
  }
  try {
    const Failure failure =
        failure_from_json(Json::parse(bytes, {.max_depth = 16}));
    (void)failure_title(failure);
    (void)failure_body(failure);
  } catch (const FormatError&) {
    // The input is not a valid failure report.
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
