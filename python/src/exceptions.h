// SPDX-License-Identifier: Apache-2.0
// Translates exceptions of this library and of LibTorch to Python exceptions.
#pragma once

namespace accelerate::python {

/// Registers the translation of C++ exceptions. An `accelerate::Error` becomes
/// the class of the same name in `accelerate_cpp.errors`, with the same hint.
void register_exceptions();

}  // namespace accelerate::python
