// SPDX-License-Identifier: Apache-2.0
// Converts keyword arguments to the option structs of the public headers.
#pragma once

#include "accelerate/accelerator_options.h"
#include "torch.h"

namespace accelerate::python {

/// These functions convert `options` to an option struct. The keys of `options`
/// are the names of the struct's fields; the value None selects the default.
/// They throw `ArgumentError` for an unknown key, or for a string that is not
/// one of the allowed values.
AcceleratorOptions accelerator_options(const py::dict& options);
InitProcessGroupKwargs init_process_group_kwargs(const py::dict& options);
ProfileKwargs profile_kwargs(const py::dict& options);

}  // namespace accelerate::python
