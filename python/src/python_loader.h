// SPDX-License-Identifier: Apache-2.0
// The C++ counterpart of a Python DataLoader.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/data_loader_base.h"
#include "python_optimizer.h"
#include "torch.h"

namespace accelerate::python {

/// How a Python DataLoader samples its dataset.
struct LoaderOptions {
  std::optional<std::int64_t> dataset_size;  ///< Empty for a stream.
  std::int64_t batch_size = 1;
  bool shuffle = false;
  bool drop_last = false;
  std::optional<std::uint64_t> seed;
  /// The length of a custom sampling order. `set_order` sets the order itself.
  std::optional<std::int64_t> sampler_size;
  std::optional<std::int64_t> batch_sampler_size;
};

/// Decides which samples each process gets. There are two ways to read the
/// samples:
///
/// - Without a `reader`, a batch is a list of indices, and torch's Python
///   loader reads the samples, in worker processes if it has any. The Python
///   loader prefetches indices with a separate cursor (`read_ahead`); the
///   Accelerator uses only the position of the loop's own cursor.
/// - With a `reader`, the reader returns samples and batches as Python objects.
///   Streams need a reader, and so does a loader that reads in one process for
///   all processes.
class PythonLoader : public DataLoaderBase {
 public:
  PythonLoader(const LoaderOptions& options, std::optional<Adapter> reader);

  /// Sets the sampling order of the following loops: the dataset index at each
  /// position.
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
      std::optional<Adapter> reader);
  PythonLoader(
      std::shared_ptr<Impl> impl,
      std::shared_ptr<Orders> orders,
      bool uses_reader);

  std::shared_ptr<Orders> orders_;
  bool uses_reader_ = false;
};

/// The position of a loop over a `PythonLoader`.
class PythonLoader::Cursor {
 public:
  Cursor(Loop loop, bool uses_reader)
      : loop_(std::move(loop)), uses_reader_(uses_reader) {}

  bool has_batch() const { return loop_ && loop_->batch() != nullptr; }
  void advance();
  /// Returns the batch: a list of indices or, with a reader, the batch that the
  /// reader returned. Returns None after the last batch. Acquires the GIL.
  py::object batch() const;
  void close() { loop_.reset(); }

 private:
  std::optional<Loop> loop_;
  bool uses_reader_;
};

}  // namespace accelerate::python
