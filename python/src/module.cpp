// SPDX-License-Identifier: Apache-2.0
// `accelerate_cpp._core`: Python bindings of the public headers. The package's
// Python files build the user interface on top of it.
#include <torch/version.h>

#include "bind.h"
#include "exceptions.h"

PYBIND11_MODULE(_core, module) {
  module.doc() = "The C++ core of accelerate_cpp.";
  // LibTorch's C++ interface changes with each minor release.
  module.attr("torch_version") = TORCH_VERSION;
  accelerate::python::register_exceptions();
  accelerate::python::bind_state(module);
  accelerate::python::bind_objects(module);
  accelerate::python::bind_accelerator(module);
  accelerate::python::bind_functions(module);
  accelerate::python::bind_progress(module);
}
