// SPDX-License-Identifier: Apache-2.0
// Includes Python, pybind11 and tensors for all files in the extension.
#pragma once

#include <torch/csrc/utils/pybind.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
