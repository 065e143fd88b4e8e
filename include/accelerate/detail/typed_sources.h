// SPDX-License-Identifier: Apache-2.0
// Adapts datasets and streams to `BatchSource`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "accelerate/dataset.h"
#include "accelerate/detail/batch_source.h"
#include "accelerate/detail/nest_structure.h"
#include "accelerate/nest.h"

namespace accelerate::detail {

[[noreturn]] ACCELERATE_API void refuse_workers(std::int64_t workers);

/// The operations on a batch that need its type.
template <typename Batch>
class TypedBatches : public BatchSource {
 public:
  bool is_nest() const override { return IsNest<Batch>::value; }
  bool can_be_sent() const override { return kCanRebuildNest<Batch>; }

  std::vector<Tensor> tensors(void* batch) const override {
    std::vector<Tensor> found;
    if constexpr (IsNest<Batch>::value) {
      visit_tensors(typed(batch), [&](Tensor& t) { found.push_back(t); });
    }
    return found;
  }

  void set_tensors(
      void* batch, const std::vector<Tensor>& tensors) const override {
    if constexpr (IsNest<Batch>::value) {
      auto next = tensors.begin();
      visit_tensors(typed(batch), [&](Tensor& t) { t = *next++; });
    }
  }

  Json describe(void* batch) const override {
    if constexpr (kCanRebuildNest<Batch>) {
      return describe_nest(typed(batch));
    } else {
      return {};
    }
  }

  Opaque build(const Json& structure) const override {
    if constexpr (kCanRebuildNest<Batch>) {
      auto batch = std::make_shared<Batch>();
      build_nest(*batch, structure);
      return batch;
    } else {
      return nullptr;
    }
  }

 private:
  static Batch& typed(void* batch) { return *static_cast<Batch*>(batch); }
};

template <typename Dataset>
std::shared_ptr<DatasetOf<Dataset>> share_dataset(Dataset dataset) {
  if constexpr (std::is_same_v<DatasetOf<Dataset>, Dataset>) {
    return std::make_shared<Dataset>(std::move(dataset));
  } else {
    return dataset;
  }
}

template <typename D>
void forward_epoch(D& dataset, std::int64_t epoch) {
  if constexpr (requires { dataset.set_epoch(epoch); }) {
    dataset.set_epoch(epoch);
  }
}

/// An indexed dataset. `Collate` makes a batch from a vector of samples.
template <typename D, typename Batch, typename Collate>
class MapSource : public TypedBatches<Batch> {
 public:
  MapSource(std::shared_ptr<D> dataset, Collate collate)
      : datasets_{std::move(dataset)}, collate_(std::move(collate)) {}

  std::optional<std::int64_t> size() const override {
    return size_of(std::as_const(*datasets_.front()));
  }

  void begin_epoch(std::int64_t epoch, std::int64_t workers) override {
    if constexpr (LibTorchDataset<D> && !PlainGet<D> && !RandomGet<D>) {
      copy_for(workers);
    }
    for (const auto& dataset : datasets_) {
      forward_epoch(*dataset, epoch);
    }
  }

  Opaque load(const LoadRequest& request) override {
    if constexpr (LibTorchGetBatch<D> && !LibTorchGet<D>) {
      return load_batch(request);
    } else {
      auto samples = read(request);
      request.progress->collate();
      try {
        return std::make_shared<Batch>(collate_(std::move(samples)));
      } catch (...) {
        rethrow_for_batch(request.indices);
      }
    }
  }

  Opaque next() override { return nullptr; }
  Opaque collate(std::span<const Opaque>) override { return nullptr; }

 private:
  auto read(const LoadRequest& request) const {
    std::vector<SampleOf<D>> samples;
    samples.reserve(request.indices.size());
    at::Generator generator;
    if constexpr (RandomGet<D>) {
      generator = make_generator();
    }
    for (const std::int64_t index : request.indices) {
      request.progress->read(index);
      try {
        samples.push_back(get(request, index, generator));
      } catch (...) {
        rethrow_for_sample(index);
      }
    }
    return samples;
  }

  SampleOf<D> get(
      const LoadRequest& request,
      std::int64_t index,
      [[maybe_unused]] at::Generator& generator) const {
    if constexpr (RandomGet<D>) {
      seed_for_sample(generator, request.key, index);
      return std::as_const(*datasets_.front()).get(index, generator);
    } else if constexpr (PlainGet<D>) {
      return std::as_const(*datasets_.front()).get(index);
    } else {
      return of(request).get(static_cast<std::size_t>(index));
    }
  }

  Opaque load_batch(const LoadRequest& request) const {
    const std::vector<std::size_t> indices(
        request.indices.begin(), request.indices.end());
    request.progress->read(request.indices.empty() ? 0 : request.indices[0]);
    try {
      auto result = of(request).get_batch(indices);
      if constexpr (YieldsBatches<D>) {
        return std::make_shared<Batch>(std::move(result));
      } else {
        return std::make_shared<Batch>(collate_(std::move(result)));
      }
    } catch (...) {
      rethrow_for_batch(request.indices);
    }
  }

  D& of(const LoadRequest& request) const {
    return *datasets_[static_cast<std::size_t>(request.worker)];
  }

  void copy_for(std::int64_t workers) {
    while (static_cast<std::int64_t>(datasets_.size()) < workers) {
      if constexpr (std::copy_constructible<D>) {
        datasets_.push_back(std::make_shared<D>(*datasets_.front()));
      } else {
        refuse_workers(workers);
      }
    }
  }

  // The dataset, and copies of it for workers that cannot share it.
  std::vector<std::shared_ptr<D>> datasets_;
  Collate collate_;
};

/// A dataset that can only be read from beginning to end.
template <typename D, typename Batch, typename Collate>
class StreamSource : public TypedBatches<Batch> {
 public:
  using Sample = SampleOf<D>;

  StreamSource(std::shared_ptr<D> dataset, Collate collate)
      : dataset_(std::move(dataset)), collate_(std::move(collate)) {}

  std::optional<std::int64_t> size() const override { return std::nullopt; }
  Opaque load(const LoadRequest&) override { return nullptr; }

  void begin_epoch(std::int64_t epoch, std::int64_t) override {
    forward_epoch(*dataset_, epoch);
    if constexpr (requires { dataset_->reset(); }) {
      dataset_->reset();
    }
  }

  Opaque next() override {
    if constexpr (LibTorchStream<D>) {
      auto samples = samples_of(dataset_->get_batch(1));
      return samples.empty()
                 ? nullptr
                 : std::make_shared<Sample>(std::move(samples.front()));
    } else {
      auto sample = dataset_->next();
      return sample.has_value() ? std::make_shared<Sample>(std::move(*sample))
                                : nullptr;
    }
  }

  Json stream_state() const override {
    if constexpr (StatefulStream<D>) {
      return std::as_const(*dataset_).state_dict();
    } else {
      return {};
    }
  }
  void load_stream_state([[maybe_unused]] const Json& state) override {
    if constexpr (StatefulStream<D>) {
      dataset_->load_state_dict(state);
    }
  }

  Opaque collate(std::span<const Opaque> samples) override {
    std::vector<Sample> typed;
    typed.reserve(samples.size());
    for (const Opaque& sample : samples) {
      typed.push_back(*static_cast<const Sample*>(sample.get()));
    }
    return std::make_shared<Batch>(collate_(std::move(typed)));
  }

 private:
  std::shared_ptr<D> dataset_;
  Collate collate_;
};

}  // namespace accelerate::detail
