// SPDX-License-Identifier: Apache-2.0
// The reductions of `Collectives`.
#include <algorithm>
#include <utility>

#include "comm/backends/mpi/mpi_collectives.h"

namespace accelerate::mpi {
namespace {

// Up to this size every rank receives all values and reduces them itself: one
// round of messages instead of two.
constexpr std::size_t kSmallBytes = 4 << 10;

std::vector<ConstBytes> constant(const std::vector<Bytes>& chunks) {
  return {chunks.begin(), chunks.end()};
}

}  // namespace

void Collectives::reduce_rows_into(
    const Reduction& reduction,
    const std::vector<ConstBytes>& rows,
    Bytes output) {
  std::vector<const std::byte*> pointers;
  for (const ConstBytes row : rows) {
    pointers.push_back(row.data());
  }
  std::byte* const out = output.data();
  reduce_rows(
      reduction.kind,
      reduction.type,
      std::span(&out, 1),
      pointers,
      static_cast<std::int64_t>(output.size() / reduction.element_bytes));
}

// Splits a segment into one part per rank, in whole elements. The first parts
// are one element longer if the segment does not divide evenly.
template <typename Span>
std::vector<Span> Collectives::split(
    const Reduction& reduction, Span segment) const {
  const std::size_t ranks = static_cast<std::size_t>(size());
  const std::size_t elements = segment.size() / reduction.element_bytes;
  std::vector<Span> parts;
  std::size_t begin = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    const std::size_t count = elements / ranks + (r < elements % ranks ? 1 : 0);
    const std::size_t bytes = count * reduction.element_bytes;
    parts.push_back(segment.subspan(begin, bytes));
    begin += bytes;
  }
  return parts;
}

void Collectives::reduce_scatter(
    const Reduction& reduction,
    const std::vector<ConstBytes>& inputs,
    Bytes output) {
  start_together(output.size() * inputs.size());
  const std::size_t ranks = inputs.size();
  const std::size_t most = std::max(
      reduction.element_bytes,
      kSegmentBytes / ranks / reduction.element_bytes *
          reduction.element_bytes);
  scratch_->resize(std::min(most, output.size()) * ranks);
  for (std::size_t begin = 0; begin < output.size(); begin += most) {
    const std::size_t bytes = std::min(most, output.size() - begin);
    std::vector<ConstBytes> to;
    std::vector<Bytes> rows;
    for (std::size_t r = 0; r < ranks; ++r) {
      to.push_back(inputs[r].subspan(begin, bytes));
      rows.push_back(Bytes(*scratch_).subspan(r * bytes, bytes));
    }
    exchange(to, rows, 0);
    reduce_rows_into(reduction, constant(rows), output.subspan(begin, bytes));
  }
}

// Reduces this rank's part of `segment` into `output`, which may be that part.
void Collectives::reduce_part(
    const Reduction& reduction, ConstBytes segment, Bytes output) {
  const auto ranks = static_cast<std::size_t>(size());
  const auto own = static_cast<std::size_t>(rank());
  std::vector<ConstBytes> to = split(reduction, segment);
  const ConstBytes part = std::exchange(to[own], ConstBytes());
  scratch_->resize(std::max(scratch_->size(), part.size() * ranks));
  std::vector<Bytes> from(ranks);
  std::vector<ConstBytes> rows(ranks, part);
  for (std::size_t r = 0; r < ranks; ++r) {
    if (r != own) {
      from[r] = Bytes(*scratch_).subspan(r * part.size(), part.size());
      rows[r] = from[r];
    }
  }
  exchange(to, from, 0);
  reduce_rows_into(reduction, rows, output);
}

void Collectives::all_reduce_small(const Reduction& reduction, Bytes data) {
  const auto ranks = static_cast<std::size_t>(size());
  scratch_->resize(data.size() * ranks);
  all_gather_small(data, *scratch_);
  std::vector<ConstBytes> rows(ranks);
  for (std::size_t j = 0; j < ranks; ++j) {
    rows[static_cast<std::size_t>(rank_at(static_cast<int>(j)))] =
        ConstBytes(*scratch_).subspan(j * data.size(), data.size());
  }
  reduce_rows_into(reduction, rows, data);
}

void Collectives::all_reduce(const Reduction& reduction, Bytes data) {
  if (data.empty() || size() == 1) {
    return;
  }
  if (data.size() <= kSmallBytes) {
    return all_reduce_small(reduction, data);
  }
  start_together(data.size());
  const auto own = static_cast<std::size_t>(rank());
  const auto ranks = static_cast<std::size_t>(size());
  for (const Bytes segment : segments_of(data)) {
    const std::vector<Bytes> parts = split(reduction, segment);
    reduce_part(reduction, segment, parts[own]);
    exchange(std::vector<ConstBytes>(ranks, parts[own]), parts, 0);
  }
}

void Collectives::reduce(
    const Reduction& reduction, ConstBytes input, Bytes output, int root) {
  start_together(input.size());
  const auto own = static_cast<std::size_t>(rank());
  const auto ranks = static_cast<std::size_t>(size());
  const std::vector<ConstBytes> inputs = segments_of(input);
  const std::vector<Bytes> outputs = segments_of(output);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    result_->resize(split(reduction, inputs[i])[own].size());
    reduce_part(reduction, inputs[i], *result_);
    std::vector<ConstBytes> to(ranks);
    to[static_cast<std::size_t>(root)] = *result_;
    std::vector<Bytes> from(ranks);
    if (rank() == root) {
      from = split(reduction, outputs[i]);
    }
    exchange(to, from, 0);
  }
}

}  // namespace accelerate::mpi
