// SPDX-License-Identifier: Apache-2.0
// What libtransformers.so shows to its users; everything else stays hidden.
#pragma once

#define TRANSFORMERS_API __attribute__((visibility("default")))
