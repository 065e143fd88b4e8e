// SPDX-License-Identifier: Apache-2.0
// Replaces a Gloo header that LibTorch packages do not ship; see
// gloo_backend.cpp.
#pragma once
