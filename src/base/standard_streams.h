// SPDX-License-Identifier: Apache-2.0
// stdin, stdout and stderr that a parent process has closed.
#pragma once

namespace accelerate {

/// Opens /dev/null in place of each of the descriptors 0, 1 and 2 that is
/// closed. Otherwise the next socket or pipe would get this number, and every
/// message for stderr would go into it. Call it before anything opens a file.
void open_standard_streams() noexcept;

}  // namespace accelerate
