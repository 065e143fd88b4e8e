// SPDX-License-Identifier: Apache-2.0
// Includes the headers of the transformers library.
#pragma once

#include "transformers/auto_model.h"
#include "transformers/batch_tensors.h"
#include "transformers/configuration.h"
#include "transformers/data_collator.h"
#include "transformers/dataset.h"
#include "transformers/hub.h"
#include "transformers/optimization.h"
#include "transformers/tokenizer.h"
