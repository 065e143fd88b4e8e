// SPDX-License-Identifier: Apache-2.0
#include "accelerate/recordable_module.h"

namespace accelerate {

RecordableModule::~RecordableModule() = default;

}  // namespace accelerate
