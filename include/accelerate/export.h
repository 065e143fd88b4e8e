// SPDX-License-Identifier: Apache-2.0
// What libaccelerate.so shows to its users; everything else stays hidden.
#pragma once

#define ACCELERATE_API __attribute__((visibility("default")))
