// SPDX-License-Identifier: Apache-2.0
#include "xla/lowerings/lowerings.h"

#include <iterator>

namespace accelerate::xla {

Lowerings all_lowerings() {
  Lowerings all;
  for (const auto family :
       {unary_lowerings,
        binary_lowerings,
        activation_lowerings,
        reduction_lowerings,
        matmul_lowerings,
        shape_lowerings,
        creation_lowerings,
        indexing_lowerings,
        normalization_lowerings,
        loss_lowerings,
        random_lowerings,
        convolution_lowerings,
        pooling_lowerings,
        optimizer_lowerings}) {
    Lowerings rows = family();
    all.insert(
        all.end(),
        std::make_move_iterator(rows.begin()),
        std::make_move_iterator(rows.end()));
  }
  return all;
}

}  // namespace accelerate::xla
