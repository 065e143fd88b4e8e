// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace transformers::datasets {

/// Returns whether Arrow reads this text as a time: a date `YYYY-MM-DD`,
/// optionally with a space or `T` and a time of day (`hh`, `hh:mm` or
/// `hh:mm:ss`), which may end with `Z`, `+hh`, `+hhmm` or `+hh:mm`.
bool is_timestamp(std::string_view text);

}  // namespace transformers::datasets
