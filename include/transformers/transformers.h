// SPDX-License-Identifier: Apache-2.0
// Everything a program that trains a transformer needs beside `accelerate`.
#pragma once

#include "transformers/auto_model.h"
#include "transformers/batch_tensors.h"
#include "transformers/configuration.h"
#include "transformers/data_collator.h"
#include "transformers/dataset.h"
#include "transformers/hub.h"
#include "transformers/optimization.h"
#include "transformers/tokenizer.h"
