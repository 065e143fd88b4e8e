// SPDX-License-Identifier: Apache-2.0
// Finds misspelled option fields in a program that does not compile. Compilers
// report such a field through layers of templates, often without its name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace accelerate {

/// Returns the names of the fields in the public headers of this project, which
/// are in the include folders among the compiler's `flags`.
std::vector<std::string> public_fields(const std::vector<std::string>& flags);

/// Finds the first `.name = value` in `source` with a misspelled name: a name
/// that is similar to one of `fields`, is not itself in `fields`, and is not
/// declared in `source`. Returns a sentence about this name, "line 7 sets
/// `.batchsize`; did you mean `.batch_size`?", or an empty string if every name
/// is correct.
std::string misspelled_option(
    std::string_view source, const std::vector<std::string>& fields);

}  // namespace accelerate
