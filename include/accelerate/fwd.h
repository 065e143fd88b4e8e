// SPDX-License-Identifier: Apache-2.0
// Names of the LibTorch types our public headers mention, not their
// definitions.
#pragma once

namespace at {
class Tensor;
}
namespace c10d {
class Backend;
class ProcessGroup;
class Store;
class Work;
}  // namespace c10d
namespace torch::nn {
class Module;
}
namespace torch::optim {
class Optimizer;
}

namespace accelerate {
using Tensor = at::Tensor;
}
