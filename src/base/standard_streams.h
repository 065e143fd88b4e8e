// SPDX-License-Identifier: Apache-2.0
// Replaces stdin, stdout and stderr if a parent process has closed them.
#pragma once

namespace accelerate {

/// Opens /dev/null in place of each of the descriptors 0, 1 and 2 that is
/// closed. Otherwise, the next file, socket or pipe could get descriptor 2, and
/// every message for stderr would go into it. Must be called before anything
/// opens a file.
void open_standard_streams() noexcept;

}  // namespace accelerate
