// SPDX-License-Identifier: Apache-2.0
// Reads a dataset in batches and compares this library's loader with LibTorch's
// loader.
//
//     build/bin/benchmarks/data_loader [--json] [--quick]
//
// Both loaders read the same shuffled dataset and stack the same tensors. The
// loaders run alternately, so that a busy machine slows down both equally.
// Times are for one epoch. Also reports how much memory ten epochs add, and how
// long it takes to resume far into a very large dataset.
#include "accelerate/data_loader.h"

#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/data/dataloader.h>
#include <torch/data/datasets/base.h>
#include <torch/data/datasets/map.h>
#include <torch/data/samplers/random.h>
#include <torch/data/transforms/stack.h>

#include "base/str_cat.h"
#include "support/arguments.h"
#include "support/report.h"

namespace accelerate::benchmarks {
namespace {

constexpr std::int64_t kSamples = 20'000;
constexpr std::int64_t kBatch = 32;

/// Rows of a matrix and their labels, as a LibTorch dataset.
class Rows : public torch::data::datasets::Dataset<Rows> {
 public:
  explicit Rows(std::int64_t width)
      : data_(at::randn({kSamples, width})),
        labels_(at::randint(10, {kSamples})) {}

  torch::data::Example<> get(std::size_t index) override {
    const auto i = static_cast<std::int64_t>(index);
    return {data_[i], labels_[i]};
  }
  std::optional<std::size_t> size() const override { return kSamples; }

 private:
  at::Tensor data_;
  at::Tensor labels_;
};

/// A dataset that only returns indices, to measure the cost of the loader
/// itself.
struct Huge {
  std::int64_t n = 0;
  std::int64_t size() const { return n; }
  std::int64_t get(std::int64_t index) const { return index; }
};

std::int64_t rows_seen = 0;

void count_rows(const torch::data::Example<>& batch) {
  rows_seen += batch.data.size(0);
}

std::int64_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") {
      std::int64_t kib = 0;
      status >> kib;
      return kib;
    }
  }
  return 0;
}

auto make_our_loader(const Rows& rows, std::int64_t workers) {
  return DataLoader(
      rows, {.batch_size = kBatch, .shuffle = true, .num_workers = workers});
}

auto make_libtorch_loader(const Rows& rows, std::int64_t workers) {
  return torch::data::make_data_loader<torch::data::samplers::RandomSampler>(
      Rows(rows).map(torch::data::transforms::Stack<>()),
      torch::data::DataLoaderOptions()
          .batch_size(static_cast<std::size_t>(kBatch))
          .workers(static_cast<std::size_t>(workers)));
}

void compare(
    const Report& report,
    std::int64_t width,
    std::int64_t workers,
    int rounds) {
  const Rows rows(width);
  auto ours = make_our_loader(rows, workers);
  auto libtorch = make_libtorch_loader(rows, workers);
  const auto our_epoch = [&] {
    for (auto& batch : ours) {
      count_rows(batch);
    }
  };
  const auto libtorch_epoch = [&] {
    for (auto& batch : *libtorch) {
      count_rows(batch);
    }
  };
  our_epoch();
  libtorch_epoch();
  std::vector<double> our_times;
  std::vector<double> libtorch_times;
  for (int i = 0; i < rounds; ++i) {
    our_times.push_back(seconds_of(1, our_epoch));
    libtorch_times.push_back(seconds_of(1, libtorch_epoch));
    libtorch_times.push_back(seconds_of(1, libtorch_epoch));
    our_times.push_back(seconds_of(1, our_epoch));
  }
  const double seconds = median(our_times);
  report.add(
      {str_cat("epoch, ", width, " floats, ", workers, " workers"),
       seconds,
       median(libtorch_times)});
  report.note(str_cat(
      "  ", static_cast<std::int64_t>(kSamples / seconds), " samples/s"));
}

void memory(const Report& report) {
  const Rows rows(128);
  auto loader = make_our_loader(rows, 2);
  const auto epochs = [&](int count) {
    for (int i = 0; i < count; ++i) {
      for (auto& batch : loader) {
        count_rows(batch);
      }
    }
  };
  epochs(2);
  const std::int64_t before = resident_kib();
  epochs(10);
  report.measure(
      "memory added by ten epochs, 2 workers",
      static_cast<double>(resident_kib() - before),
      "KiB");
}

void resume(const Report& report) {
  constexpr std::int64_t kHuge = 10'000'000'000;
  const auto state = Json::object(
      {{"version", 1},
       {"seed", "42"},
       {"epoch", 3},
       {"samples_used", kHuge / 10},
       {"size", kHuge},
       {"order", "shuffle"}});
  const double seconds = seconds_of(101, [&] {
    DataLoader loader(Huge{kHuge}, {.batch_size = kBatch, .shuffle = true});
    loader.load_state_dict(state);
    const auto loop = loader.begin();
    rows_seen += (*loop).size(0);
  });
  report.measure(
      "resume at sample 10^9 of 10^10, to the first batch",
      seconds * 1e6,
      "µs");
}

}  // namespace
}  // namespace accelerate::benchmarks

int main(int argc, char** argv) {
  using namespace accelerate::benchmarks;
  check_arguments(
      argc,
      argv,
      {.text =
           "data_loader [--json] [--quick]\n\n"
           "Reads a dataset in batches; compares our loader with LibTorch's."});
  at::set_num_threads(1);
  const bool quick = has_flag(argc, argv, "--quick");
  const Report report(has_flag(argc, argv, "--json"));
  for (const std::int64_t width : {16, 1024}) {
    for (const std::int64_t workers : {0, 2}) {
      compare(report, width, workers, quick ? 1 : 15);
    }
  }
  memory(report);
  resume(report);
  return rows_seen > 0 ? 0 : 1;
}
