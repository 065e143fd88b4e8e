// SPDX-License-Identifier: Apache-2.0
// TensorBoard's event files: a sequence of framed, checksummed messages.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace accelerate {

/// Returns `message` as event files store it: with its length, a checksum of
/// the length, and a checksum of the message.
std::string framed_event(std::string_view message);

/// Returns the next message and removes it from `rest`. Returns nothing if
/// `rest` is empty, incomplete or damaged.
std::optional<std::string_view> read_framed_event(std::string_view& rest);

/// Returns the time of an encoded `Event`, in microseconds since 1970.
std::int64_t event_time_us(std::string_view event);

}  // namespace accelerate
