// SPDX-License-Identifier: Apache-2.0
#include "accelerate/error.h"

#include <utility>

namespace accelerate {

Error::Error(
    const std::string& what_happened,
    std::string hint,
    std::source_location where)
    : std::runtime_error(what_happened), hint_(std::move(hint)), where_(where) {
}

// Out-of-line destructors put each class's type information into this library,
// so that a `catch` in a program matches a `throw` in the library.
Error::~Error() = default;
ArgumentError::~ArgumentError() = default;
ConfigError::~ConfigError() = default;
StateError::~StateError() = default;
UnsupportedError::~UnsupportedError() = default;
IoError::~IoError() = default;
FormatError::~FormatError() = default;
DistributedError::~DistributedError() = default;
MismatchError::~MismatchError() = default;
RankError::~RankError() = default;
OutOfMemoryError::~OutOfMemoryError() = default;
InternalError::~InternalError() = default;

}  // namespace accelerate
