// SPDX-License-Identifier: Apache-2.0
// What every file of the extension reads: Python, pybind11 and tensors.
#pragma once

#include <torch/csrc/utils/pybind.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
