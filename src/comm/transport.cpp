// SPDX-License-Identifier: Apache-2.0
#include "comm/transport.h"

#include <algorithm>
#include <map>

#include <c10/core/ScalarType.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "comm/reduce_kernels.h"

namespace accelerate {
namespace {

std::string describe(const Signature& signature) {
  std::string text =
      c10d::opTypeToString(static_cast<c10d::OpType>(signature.operation));
  if (signature.type != kNoType) {
    text += str_cat(
        " ",
        name_of(static_cast<ReduceKind>(signature.kind)),
        " of ",
        c10::toString(static_cast<c10::ScalarType>(signature.type)));
  }
  if (signature.root >= 0) {
    text += str_cat(", root ", signature.root);
  }
  return str_cat(text, ", ", signature.bytes, " bytes");
}

}  // namespace

Transport::~Transport() = default;

std::shared_ptr<std::byte> Transport::allocate_shared(
    const Call& /*call*/, std::size_t /*bytes*/) {
  return nullptr;
}

bool Transport::work_in_place(
    const Call& /*call*/,
    const Signature& /*signature*/,
    std::span<std::byte> /*data*/,
    const std::function<void(std::span<std::byte* const>)>& /*work*/) {
  return false;
}

void check_same(const Call& call, std::span<const Signature> signatures) {
  const bool same = std::all_of(
      signatures.begin(), signatures.end(), [&](const Signature& other) {
        return other == signatures.front();
      });
  if (same) {
    return;
  }
  std::map<std::string, std::vector<int>> ranks_by_signature;
  for (std::size_t rank = 0; rank < signatures.size(); ++rank) {
    ranks_by_signature[describe(signatures[rank])].push_back(
        static_cast<int>(rank));
  }
  std::string table;
  for (const auto& [signature, ranks] : ranks_by_signature) {
    table += str_cat("\n  ", name_ranks(ranks), ": ", signature);
  }
  throw MismatchError(
      str_cat(
          call.operation,
          " #",
          call.sequence,
          ": the ranks made different calls",
          table),
      "make the same collective calls on every rank, with tensors of the same "
      "type and size");
}

}  // namespace accelerate
