// SPDX-License-Identifier: Apache-2.0
// Everything a program that trains a transformer needs beside `accelerate`.
#pragma once

#include "transformers/optimization.h"
