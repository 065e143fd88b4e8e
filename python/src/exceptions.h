// SPDX-License-Identifier: Apache-2.0
// Our exceptions, and those that pass through LibTorch, as Python's.
#pragma once

namespace accelerate::python {

/// From now on an `accelerate::Error` arrives as the class of its name in
/// `accelerate_cpp.errors`, with its hint.
void register_exceptions();

}  // namespace accelerate::python
