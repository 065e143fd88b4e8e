// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace transformers::datasets {

/// Returns whether Arrow reads this text as a time: `YYYY-MM-DD`, possibly
/// followed by a space or `T` and `hh`, `hh:mm` or `hh:mm:ss`, possibly
/// followed by `Z`, `+hh`, `+hhmm` or `+hh:mm`.
bool is_timestamp(std::string_view text);

}  // namespace transformers::datasets
