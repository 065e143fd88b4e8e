// SPDX-License-Identifier: Apache-2.0
// Each of these functions adds a part of the Python API to the extension
// module.
#pragma once

#include "torch.h"

namespace accelerate::python {

void bind_state(py::module_& module);
void bind_objects(py::module_& module);
void bind_accelerator(py::module_& module);
void bind_functions(py::module_& module);
void bind_progress(py::module_& module);

}  // namespace accelerate::python
