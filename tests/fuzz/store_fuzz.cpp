// SPDX-License-Identifier: Apache-2.0
// Any frames at the launcher's store, and any message of a machine.
#include <cstddef>
#include <cstdint>
#include <string>

#include "accelerate/error.h"
#include "base/store_protocol.h"
#include "launch/failure_json.h"
#include "launch/meeting.h"
#include "launch/store_data.h"

namespace {

using namespace accelerate;

// Frames one after the other, as they come from a client.
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

void feed_machine(std::string_view bytes) {
  try {
    const Json json = Json::parse(bytes, {.max_depth = 16});
    Meeting meeting(2);
    (void)meeting.add(MachineCard::from_json(json));
    (void)meeting.difference_text();
    (void)meeting.missing_text("here", 1);
  } catch (const FormatError&) {
    // Not a card.
  }
  try {
    const Failure failure =
        failure_from_json(Json::parse(bytes, {.max_depth = 16}));
    (void)failure_title(failure);
    (void)failure_body(failure);
  } catch (const FormatError&) {
    // Not a failure.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(
    const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  feed_store(bytes);
  feed_machine(bytes);
  return 0;
}
