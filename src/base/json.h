// SPDX-License-Identifier: Apache-2.0
// Where layers below the public API look for the JSON value.
#pragma once

#include "accelerate/json.h"
