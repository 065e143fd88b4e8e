// SPDX-License-Identifier: Apache-2.0
// Includes all headers that a training program needs.
#pragma once

#include "accelerate/accelerator.h"
#include "accelerate/accelerator_nests.h"
#include "accelerate/autocast.h"
#include "accelerate/data_loader.h"
#include "accelerate/error.h"
#include "accelerate/launchers.h"
#include "accelerate/local_sgd.h"
#include "accelerate/logging.h"
#include "accelerate/lr_scheduler.h"
#include "accelerate/memory.h"
#include "accelerate/metrics.h"
#include "accelerate/operations.h"
#include "accelerate/optim.h"
#include "accelerate/partial_state.h"
#include "accelerate/random.h"
#include "accelerate/saving.h"
#include "accelerate/seed.h"
#include "accelerate/tensor_map.h"
#include "accelerate/tqdm.h"
