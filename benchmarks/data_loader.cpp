// SPDX-License-Identifier: Apache-2.0
// Reading a dataset in batches: our loader against LibTorch's.
//
//     build/bin/benchmarks/data_loader [--json] [--quick]
//
// Both read the same shuffled dataset and stack the same tensors, taking
// turns, so that a busy host slows both down alike. Times are of one epoch.
// Beside them: how much memory ten epochs add, and how long it takes to
// continue far inside a very large dataset.
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

/// Rows of a matrix and their labels, as LibTorch's loader wants them.
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

/// An index and nothing behind it: what the loader itself costs.
struct Huge {
  std::int64_t n = 0;
  std::int64_t size() const { return n; }
  std::int64_t get(std::int64_t index) const { return index; }
};

std::int64_t rows_seen = 0;

void take(const torch::data::Example<>& batch) {
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

auto ours_over(const Rows& rows, std::int64_t workers) {
  return DataLoader(
      rows, {.batch_size = kBatch, .shuffle = true, .num_workers = workers});
}

auto theirs_over(const Rows& rows, std::int64_t workers) {
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
  auto ours = ours_over(rows, workers);
  auto theirs = theirs_over(rows, workers);
  const auto our_epoch = [&] {
    for (auto& batch : ours) {
      take(batch);
    }
  };
  const auto their_epoch = [&] {
    for (auto& batch : *theirs) {
      take(batch);
    }
  };
  our_epoch();
  their_epoch();
  std::vector<double> our_times;
  std::vector<double> their_times;
  for (int i = 0; i < rounds; ++i) {
    our_times.push_back(seconds_of(1, our_epoch));
    their_times.push_back(seconds_of(1, their_epoch));
    their_times.push_back(seconds_of(1, their_epoch));
    our_times.push_back(seconds_of(1, our_epoch));
  }
  const double seconds = median(our_times);
  report.add(
      {str_cat("epoch, ", width, " floats, ", workers, " workers"),
       seconds,
       median(their_times)});
  report.note(str_cat(
      "  ", static_cast<std::int64_t>(kSamples / seconds), " samples/s"));
}

void memory(const Report& report) {
  const Rows rows(128);
  auto loader = ours_over(rows, 2);
  const auto epochs = [&](int count) {
    for (int i = 0; i < count; ++i) {
      for (auto& batch : loader) {
        take(batch);
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
      {.text = "data_loader [--json] [--quick]\n\n"
               "Reading a dataset in batches: our loader against LibTorch's."});
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
