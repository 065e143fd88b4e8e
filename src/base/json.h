// SPDX-License-Identifier: Apache-2.0
// Forwards to the public JSON header, for layers below the public API.
#pragma once

#include "accelerate/json.h"
