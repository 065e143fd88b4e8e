// SPDX-License-Identifier: Apache-2.0
// A Python DataLoader as the core sees it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/data_loader_base.h"
#include "python_optimizer.h"
#include "torch.h"

namespace accelerate::python {

/// How a Python DataLoader deals with its dataset.
struct LoaderOptions {
  std::optional<std::int64_t> dataset_size;  ///< none: a stream
  std::int64_t batch_size = 1;
  bool shuffle = false;
  bool drop_last = false;
  std::optional<std::uint64_t> seed;
  /// An order of Python's: its length. `set_order` tells the rest.
  std::optional<std::int64_t> sampler_size;
  std::optional<std::int64_t> batch_sampler_size;
};

/// Decides which samples each process gets. Two ways to read them:
///
/// - `reads` is absent: a batch is the list of its indices, and LibTorch's
///   Python loader reads them, in its own worker processes if it has some. It
///   asks for them ahead of the loop (`indices_ahead`), while the loop moves
///   the place that the Accelerator sees.
/// - `reads` is an adapter that reads samples and batches when the core asks:
///   for streams, and where one process reads for all.
class PythonLoader : public DataLoaderBase {
 public:
  PythonLoader(const LoaderOptions& options, std::optional<Adapter> reads);

  /// The dataset index at each position of the next loops.
  void set_order(std::vector<std::int64_t> order);
  void set_batch_order(std::vector<std::vector<std::int64_t>> order);

  class Cursor;
  std::unique_ptr<Cursor> begin();
  std::unique_ptr<Cursor> read_ahead() const;
  std::unique_ptr<PythonLoader> without_first(std::int64_t batches) const;

 private:
  struct Orders;
  PythonLoader(
      std::shared_ptr<Orders> orders,
      const LoaderOptions& options,
      std::optional<Adapter> reads);
  PythonLoader(
      std::shared_ptr<Impl> impl, std::shared_ptr<Orders> orders, bool reads);

  std::shared_ptr<Orders> orders_;
  bool reads_ = false;
};

/// A loop, batch after batch.
class PythonLoader::Cursor {
 public:
  Cursor(Loop loop, bool reads) : loop_(std::move(loop)), reads_(reads) {}

  bool has_batch() const { return loop_ && loop_->batch() != nullptr; }
  void advance();
  /// The indices, or what Python read; takes the GIL.
  py::object batch() const;
  void close() { loop_.reset(); }

 private:
  std::optional<Loop> loop_;
  bool reads_;
};

}  // namespace accelerate::python
