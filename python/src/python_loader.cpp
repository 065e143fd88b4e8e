// SPDX-License-Identifier: Apache-2.0
#include "python_loader.h"

#include <utility>

#include "accelerate/error.h"
#include "json.h"

namespace accelerate::python {
namespace {

using detail::Opaque;
using Indices = std::vector<std::int64_t>;

/// A dataset whose batches are lists of indices.
class IndexSource : public detail::BatchSource {
 public:
  explicit IndexSource(std::int64_t size) : size_(size) {}

  std::optional<std::int64_t> size() const override { return size_; }
  void begin_epoch(std::int64_t, std::int64_t) override {}
  Opaque load(const detail::LoadRequest& request) override {
    return std::make_shared<Indices>(
        request.indices.begin(), request.indices.end());
  }

  Opaque next() override { fail(); }
  Opaque collate(std::span<const Opaque>) override { fail(); }
  bool is_nest() const override { return false; }
  bool can_be_sent() const override { return false; }
  std::vector<Tensor> tensors(void*) const override { return {}; }
  void set_tensors(void*, const std::vector<Tensor>&) const override {}
  Json describe(void*) const override { return {}; }
  Opaque build(const Json&) const override { fail(); }

 private:
  [[noreturn]] static void fail() {
    throw InternalError("an index source was used as a stream");
  }
  std::int64_t size_;
};

/// A dataset whose samples and batches are Python objects, which Python reads
/// on demand.
class ReadingSource : public detail::BatchSource {
 public:
  ReadingSource(std::optional<std::int64_t> size, Adapter adapter)
      : size_(size), adapter_(std::move(adapter)) {}

  std::optional<std::int64_t> size() const override { return size_; }
  void begin_epoch(std::int64_t epoch, std::int64_t) override {
    adapter_.invoke("begin_epoch", epoch);
  }
  Opaque load(const detail::LoadRequest& request) override {
    const py::gil_scoped_acquire gil;
    return hold(adapter_.object().attr("load")(
        Indices(request.indices.begin(), request.indices.end())));
  }
  Opaque next() override {
    const py::gil_scoped_acquire gil;
    const py::tuple sample = adapter_.object().attr("next")();
    return sample.empty() ? nullptr : hold(sample[0]);
  }
  Opaque collate(std::span<const Opaque> samples) override {
    const py::gil_scoped_acquire gil;
    py::list list;
    for (const Opaque& sample : samples) {
      list.append(object_in(sample.get()));
    }
    return hold(adapter_.object().attr("collate")(list));
  }

  bool is_nest() const override { return true; }
  bool can_be_sent() const override { return true; }
  std::vector<Tensor> tensors(void* batch) const override {
    return adapter_.call<std::vector<Tensor>>("tensors", object_in(batch));
  }
  void set_tensors(
      void* batch, const std::vector<Tensor>& tensors) const override {
    const py::gil_scoped_acquire gil;
    object_in(batch) =
        adapter_.object().attr("with_tensors")(object_in(batch), tensors);
  }
  Json describe(void* batch) const override {
    const py::gil_scoped_acquire gil;
    return to_json(
        adapter_.object().attr("describe")(object_in(batch)), "the batch");
  }
  Opaque build(const Json& description) const override {
    const py::gil_scoped_acquire gil;
    return hold(adapter_.object().attr("build")(from_json(description)));
  }

  static py::object& object_in(void* batch) {
    return *static_cast<py::object*>(batch);
  }

 private:
  static Opaque hold(py::object object) {
    return {new py::object(std::move(object)), [](void* held) {
              const py::gil_scoped_acquire gil;
              delete static_cast<py::object*>(held);
            }};
  }

  std::optional<std::int64_t> size_;
  Adapter adapter_;
};

std::shared_ptr<detail::BatchSource> make_source(
    const LoaderOptions& options, const std::optional<Adapter>& reader) {
  if (reader) {
    return std::make_shared<ReadingSource>(options.dataset_size, *reader);
  }
  return std::make_shared<IndexSource>(options.dataset_size.value());
}

}  // namespace

struct PythonLoader::Orders {
  /// A list that Python sets before a loop and the core reads during the loop.
  template <typename Value>
  struct Table {
    std::int64_t expected = 0;
    std::vector<Value> values = {};
  };

  /// A sampler that reads a table.
  template <typename Value>
  struct TableOrder {
    std::shared_ptr<Table<Value>> table;

    std::int64_t size() const {
      return table->values.empty()
                 ? table->expected
                 : static_cast<std::int64_t>(table->values.size());
    }
    const Value& operator()(std::int64_t position) const {
      return table->values.at(static_cast<std::size_t>(position));
    }
  };

  std::shared_ptr<Table<std::int64_t>> samples =
      std::make_shared<Table<std::int64_t>>();
  std::shared_ptr<Table<Indices>> batches = std::make_shared<Table<Indices>>();

  detail::LoaderConfig config(const LoaderOptions& options) const {
    detail::LoaderConfig config;
    config.batch_size = options.batch_size;
    config.shuffle = options.shuffle;
    config.drop_last = options.drop_last;
    config.seed = options.seed;
    config.pin_memory = false;  // Torch's Python loader pins its own batches.
    if (options.sampler_size) {
      samples->expected = *options.sampler_size;
      config.sampler = TableOrder<std::int64_t>{samples};
    }
    if (options.batch_sampler_size) {
      batches->expected = *options.batch_sampler_size;
      config.batch_sampler = TableOrder<Indices>{batches};
    }
    return config;
  }
};

PythonLoader::PythonLoader(
    const LoaderOptions& options, std::optional<Adapter> reader)
    : PythonLoader(std::make_shared<Orders>(), options, std::move(reader)) {
}

PythonLoader::PythonLoader(
    std::shared_ptr<Orders> orders,
    const LoaderOptions& options,
    std::optional<Adapter> reader)
    : DataLoaderBase(make_source(options, reader), orders->config(options)),
      orders_(std::move(orders)),
      uses_reader_(reader.has_value()) {
}

PythonLoader::PythonLoader(
    std::shared_ptr<Impl> impl,
    std::shared_ptr<Orders> orders,
    bool uses_reader)
    : DataLoaderBase(std::move(impl)),
      orders_(std::move(orders)),
      uses_reader_(uses_reader) {
}

void PythonLoader::set_order(std::vector<std::int64_t> order) {
  orders_->samples->values = std::move(order);
}

void PythonLoader::set_batch_order(std::vector<Indices> order) {
  orders_->batches->values = std::move(order);
}

std::unique_ptr<PythonLoader::Cursor> PythonLoader::begin() {
  return std::make_unique<Cursor>(begin_loop(), uses_reader_);
}

std::unique_ptr<PythonLoader::Cursor> PythonLoader::read_ahead() const {
  return std::make_unique<Cursor>(begin_reading_ahead(), uses_reader_);
}

std::unique_ptr<PythonLoader> PythonLoader::without_first(
    std::int64_t batches) const {
  return std::unique_ptr<PythonLoader>(
      new PythonLoader(copy_without(batches), orders_, uses_reader_));
}

void PythonLoader::Cursor::advance() {
  if (loop_) {
    loop_->advance();
  }
}

py::object PythonLoader::Cursor::batch() const {
  const py::gil_scoped_acquire gil;
  void* const batch = loop_ ? loop_->batch() : nullptr;
  if (batch == nullptr) {
    return py::none();
  }
  return uses_reader_ ? ReadingSource::object_in(batch)
                      : py::object(py::cast(*static_cast<Indices*>(batch)));
}

}  // namespace accelerate::python
