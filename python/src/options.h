// SPDX-License-Identifier: Apache-2.0
// Keyword arguments as the structs of the public headers.
#pragma once

#include "accelerate/accelerator_options.h"
#include "torch.h"

namespace accelerate::python {

/// `given` has the names of the struct's fields; None means left out. Throws
/// `ArgumentError` for a word that is not one of a list, and for a name that
/// the struct does not have.
AcceleratorOptions accelerator_options(const py::dict& given);
InitProcessGroupKwargs init_process_group_kwargs(const py::dict& given);
ProfileKwargs profile_kwargs(const py::dict& given);

}  // namespace accelerate::python
