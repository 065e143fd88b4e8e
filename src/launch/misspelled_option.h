// SPDX-License-Identifier: Apache-2.0
// Finds misspelled option fields in a program that does not compile. Compilers
// report them through layers of templates, often without naming the field.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace accelerate {

/// Returns the names of the fields in the public headers of this project, which
/// are in the include folders among the compiler's `flags`.
std::vector<std::string> public_fields(const std::vector<std::string>& flags);

/// Returns a sentence about the first `.name = value` in `source` whose name is
/// similar to one of `fields`, but neither one of them nor declared in
/// `source`: "line 7 sets `.batchsize`; did you mean `.batch_size`?". Empty if
/// there is none.
std::string misspelled_option(
    std::string_view source, const std::vector<std::string>& fields);

}  // namespace accelerate
