// SPDX-License-Identifier: Apache-2.0
// Marks the symbols that libaccelerate.so exports; all others are hidden.
#pragma once

#define ACCELERATE_API __attribute__((visibility("default")))
