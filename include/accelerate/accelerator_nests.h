// SPDX-License-Identifier: Apache-2.0
// The Accelerator's functions over any nest of tensors.
#pragma once

#include "accelerate/accelerator.h"
#include "accelerate/nest.h"

namespace accelerate {

template <typename Nest>
Nest Accelerator::gather(const Nest& nest) const {
  return with_tensors(nest, group().gather(tensors_of(nest)));
}

template <typename Nest>
Nest Accelerator::gather_for_metrics(const Nest& nest) const {
  return with_tensors(nest, gather_real_rows(tensors_of(nest)));
}

template <typename Nest>
Nest Accelerator::reduce(
    const Nest& nest, Reduction reduction, double scale) const {
  return with_tensors(nest, group().reduce(tensors_of(nest), reduction, scale));
}

template <typename Nest>
Nest Accelerator::pad_across_processes(
    const Nest& nest, const PadOptions& options) const {
  return with_tensors(
      nest, group().pad_across_processes(tensors_of(nest), options));
}

}  // namespace accelerate
