// SPDX-License-Identifier: Apache-2.0
// Stands in for a Gloo header that no LibTorch package ships; see
// gloo_backend.cpp.
#pragma once
