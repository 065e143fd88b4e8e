// SPDX-License-Identifier: Apache-2.0
#include "accelerate/data_loader_base.h"

#include <exception>
#include <optional>
#include <utility>

#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "data/device_copies.h"
#include "data/loader_impl.h"

namespace accelerate {

DataLoaderBase::DataLoaderBase(
    std::shared_ptr<detail::BatchSource> source, detail::LoaderConfig config)
    : impl_(std::make_shared<Impl>(std::move(source), std::move(config))) {
}
DataLoaderBase::DataLoaderBase(std::shared_ptr<Impl> impl)
    : impl_(std::move(impl)) {
}
DataLoaderBase::DataLoaderBase(DataLoaderBase&&) noexcept = default;
DataLoaderBase& DataLoaderBase::operator=(DataLoaderBase&&) noexcept = default;
DataLoaderBase::~DataLoaderBase() = default;

std::int64_t DataLoaderBase::size() const {
  return impl_->size();
}
std::optional<std::int64_t> DataLoaderBase::dataset_size() const {
  return impl_->source->size();
}
std::int64_t DataLoaderBase::total_batch_size() const {
  return impl_->total_batch_size();
}
std::int64_t DataLoaderBase::rows() const {
  return impl_->rows();
}
std::int64_t DataLoaderBase::valid_rows() const {
  return impl_->valid_rows();
}
bool DataLoaderBase::end_of_dataloader() const {
  return impl_->end_of_dataloader();
}
std::int64_t DataLoaderBase::epoch() const {
  return impl_->epoch;
}
void DataLoaderBase::set_epoch(std::int64_t epoch) {
  impl_->set_epoch(epoch);
}
Json DataLoaderBase::state_dict() const {
  return impl_->state_dict();
}
void DataLoaderBase::load_state_dict(const Json& state) {
  impl_->load_state_dict(state);
}
void DataLoaderBase::shard(const ShardOptions& options) {
  impl_->shard(options);
}
bool DataLoaderBase::even_batches() const {
  return impl_->options.configuration.even_batches;
}
void DataLoaderBase::set_even_batches(bool even) {
  impl_->check_not_in_loop("set_even_batches");
  impl_->options.configuration.even_batches = even;
}

std::shared_ptr<DataLoaderBase::Impl> DataLoaderBase::copy_without(
    std::int64_t batches) const {
  auto copy = std::make_shared<Impl>(*impl_);
  copy->skip(batches);
  return copy;
}

DataLoaderBase::Loop DataLoaderBase::begin_loop() {
  return Loop(impl_);
}

DataLoaderBase::Loop DataLoaderBase::begin_reading_ahead() const {
  auto copy = std::make_shared<Impl>(*impl_);
  copy->options.gradient_state = nullptr;
  copy->options.rng_types.clear();  // The loop itself synchronizes them.
  return Loop(copy);
}

class DataLoaderBase::Loop::State {
 public:
  explicit State(std::shared_ptr<Impl> loader) : loader_(std::move(loader)) {
    outer_position_ = loader_->position();
    reader_ = loader_->begin_reading();
    ++loader_->loops;
    if (loader_->options.device && loader_->source->is_nest()) {
      copies_.emplace(*loader_->options.device);
    }
    gradient_state_ = loader_->options.gradient_state;
    if (gradient_state_) {
      gradient_state_->enter(loader_.get());
    }
    try {
      advance();
    } catch (...) {
      leave();
      throw;
    }
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { leave(); }

  void* batch() const { return batch_.get(); }

  void advance() {
    batch_ = nullptr;
    if (!reader_) {
      return;
    }
    if (copies_) {
      copies_->end_step();
    }
    Next next =
        prefetched_ ? *std::exchange(prefetched_, std::nullopt) : fetch();
    if (next.error) {
      std::rethrow_exception(next.error);
    }
    if (!next.step) {
      leave();
      loader_->complete_epoch();
      return;
    }
    // Starts copying the next batch before the caller uses the current batch,
    // so that the copy overlaps with computation. Does not wait for a batch
    // that workers have not read yet.
    if (copies_ && copies_->are_needed() && reader_->is_ready()) {
      prefetched_ = fetch();
    }
    if (copies_) {
      copies_->finish(next.pending);
    }
    Portion& portion = next.step->portions.front();
    batch_ = std::move(portion.batch);
    loader_->take(portion, *next.step);
  }

 private:
  // A step that was read and whose copy has started.
  struct Next {
    std::optional<Step> step;
    DeviceCopies::PendingCopy pending;
    std::exception_ptr error;
  };

  // Errors are thrown when the step is requested.
  Next fetch() {
    Next next;
    try {
      next.step = read();
      if (next.step) {
        next.pending = begin_copy(next.step->portions.front().batch.get());
      }
    } catch (...) {
      next.error = std::current_exception();
    }
    return next;
  }

  // Autocast is for the model and must not change what the dataset computes.
  std::optional<Step> read() {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(
        c10::autocast_dispatch_keyset);
    return reader_->next();
  }

  DeviceCopies::PendingCopy begin_copy(void* batch) const {
    if (!copies_) {
      return {};
    }
    auto pending = copies_->begin(
        loader_->source->tensors(batch),
        loader_->options.configuration.non_blocking);
    loader_->source->set_tensors(batch, pending.tensors);
    return pending;
  }

  void leave() {
    if (!reader_) {
      return;
    }
    prefetched_.reset();
    reader_ = nullptr;  // Ends the reader's threads.
    if (--loader_->loops > 0) {
      loader_->restore_position(outer_position_);
    }
    if (gradient_state_) {
      gradient_state_->leave(loader_.get());
    }
  }

  std::shared_ptr<Impl> loader_;
  std::shared_ptr<GradientState> gradient_state_;
  std::unique_ptr<StepReader> reader_;
  std::optional<DeviceCopies> copies_;
  std::optional<Next> prefetched_;
  // The position of an outer loop over the same loader.
  Impl::Position outer_position_;
  detail::Opaque batch_;
};

DataLoaderBase::Loop::Loop(const std::shared_ptr<Impl>& loader)
    : state_(std::make_unique<State>(loader)) {
}
DataLoaderBase::Loop::Loop(Loop&&) noexcept = default;
DataLoaderBase::Loop& DataLoaderBase::Loop::operator=(Loop&&) noexcept =
    default;
DataLoaderBase::Loop::~Loop() = default;

void* DataLoaderBase::Loop::batch() const {
  return state_->batch();
}
void DataLoaderBase::Loop::advance() {
  state_->advance();
}

}  // namespace accelerate
