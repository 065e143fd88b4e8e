// SPDX-License-Identifier: Apache-2.0
// Forward declarations of the LibTorch types that the public headers use.
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
