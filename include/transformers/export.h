// SPDX-License-Identifier: Apache-2.0
// Marks the symbols that libtransformers.so exports; all others stay hidden.
#pragma once

#define TRANSFORMERS_API __attribute__((visibility("default")))
