// SPDX-License-Identifier: Apache-2.0
// Batches of your own data: a dataset, a stream, random augmentation, padding,
// worker threads, resuming, and two processes that share the work.
//
//     build/bin/examples/data_loader
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include <accelerate/data_loader.h>
#include <accelerate/launchers.h>
#include <accelerate/operations.h>
#include <accelerate/partial_state.h>
#include <accelerate/sharding.h>
#include <accelerate/tensor_map.h>

#include <ATen/ATen.h>

namespace {

// region: dataset
struct Waves {
  std::int64_t size() const { return 100; }

  // Several threads call this at the same time, so it must not change state.
  accelerate::TensorMap get(std::int64_t index) const {
    const at::Tensor x = at::linspace(0, 1, 8).add(static_cast<double>(index));
    return {{"inputs", x}, {"labels", x.sin()}};
  }
};
// endregion

void read_a_dataset() {
  // region: loop
  accelerate::DataLoader loader(
      Waves(),
      {.batch_size = 8, .shuffle = true, .num_workers = 2, .seed = 42});

  for (int epoch = 0; epoch < 2; ++epoch) {
    for (auto& batch : loader) {  // accelerate::TensorMap&, inputs [8, 8]
      if (loader.end_of_dataloader()) {
        std::cout << "epoch " << epoch << ": " << loader.size()
                  << " batches, the last has " << batch["inputs"].size(0)
                  << " rows\n";
      }
    }
  }
  // endregion
}

// region: stream
struct Lines {
  std::int64_t next_number = 0;

  std::optional<std::int64_t> next() {
    if (next_number == 10) {
      return std::nullopt;
    }
    return next_number++;
  }
  // Optional: called at the beginning of an epoch.
  void reset() { next_number = 0; }
};
// endregion

void read_a_stream() {
  accelerate::DataLoader loader(Lines(), {.batch_size = 4});
  for (at::Tensor& batch : loader) {
    std::cout << "stream: " << batch.size(0) << " numbers"
              << (loader.end_of_dataloader() ? " (the last batch)\n" : "\n");
  }
}

// region: augmentation
struct Noisy {
  std::int64_t size() const { return 100; }

  // The generator's state depends only on the loader's seed, the epoch and the
  // index: a resumed run, or a run with a different number of workers, draws
  // the same numbers.
  at::Tensor get(std::int64_t index, at::Generator& generator) const {
    return at::randn({8}, generator).add(static_cast<double>(index));
  }
};
// endregion

struct Sentences {
  std::int64_t size() const { return 5; }
  std::vector<std::int64_t> get(std::int64_t index) const {
    return std::vector<std::int64_t>(
        static_cast<std::size_t>(index + 1), index);
  }
};

// region: collate
at::Tensor pad_to_longest(const std::vector<std::vector<std::int64_t>>& rows) {
  std::size_t longest = 0;
  for (const auto& row : rows) {
    longest = std::max(longest, row.size());
  }
  at::Tensor batch = at::full(
      {static_cast<std::int64_t>(rows.size()),
       static_cast<std::int64_t>(longest)},
      -1);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const at::Tensor row = at::tensor(rows[r]);
    batch[static_cast<std::int64_t>(r)].narrow(0, 0, row.size(0)).copy_(row);
  }
  return batch;
}
// endregion

void pad_batches() {
  // region: collate-use
  accelerate::DataLoader loader(
      Sentences(), {.batch_size = 2, .collate = pad_to_longest});
  // endregion
  for (at::Tensor& batch : loader) {
    std::cout << "padded to " << batch.size(1) << " columns\n";
  }
}

// region: struct
struct Pair {
  std::string source;
  at::Tensor left;
  at::Tensor right;
};

template <typename F>
void for_each_tensor(Pair& pair, F f) {
  f(pair.left);
  f(pair.right);
}
// endregion

void join_structs() {
  const std::vector<Pair> samples = {
      {"a", at::zeros({3}), at::ones({3})},
      {"b", at::zeros({3}), at::ones({3})}};
  const Pair batch = accelerate::default_collate(samples);
  std::cout << "structs: " << batch.left.sizes() << "\n";
}

void stop_and_resume() {
  // region: resume
  const auto make_loader = [] {
    return accelerate::DataLoader(
        Noisy(), {.batch_size = 8, .shuffle = true, .seed = 7});
  };

  auto loader = make_loader();
  accelerate::Json state;
  for (auto& batch : loader) {
    if (batch.size(0) == 8) {
      state = loader.state_dict();  // The position after this batch.
      break;
    }
  }

  auto resumed = make_loader();
  resumed.load_state_dict(state);
  for (auto& batch : resumed) {  // Starts with the ninth sample of the epoch.
    std::cout << "resumed with " << batch.size(0) << " rows\n";
    break;
  }
  // endregion

  // region: skip
  for (auto& batch : accelerate::skip_first_batches(loader, 12)) {
    std::cout << "after twelve batches: " << batch.size(0) << " rows\n";
  }
  // endregion
}

// region: share
void share_between_processes() {
  const accelerate::PartialState state;
  accelerate::DataLoader loader(Waves(), {.batch_size = 8});
  loader.shard(
      {.process_index = state.process_index(),
       .num_processes = state.num_processes(),
       .group = state.group()});

  std::int64_t num_samples = 0;
  for (auto& batch : loader) {
    // The last batches are padded with samples from the beginning. The padding
    // is at the end and is not counted.
    const at::Tensor labels = batch["labels"].narrow(0, 0, loader.valid_rows());
    num_samples += accelerate::gather(labels).size(0);
  }
  state.print("together the processes saw ", num_samples, " samples");
}
// endregion

void show_sharding() {
  // region: sharding
  const accelerate::BatchSamplerShard shard(
      100, {.batch_size = 8, .num_processes = 3, .process_index = 0});
  const auto [begin, rows, valid_rows] = shard.at(4);
  std::cout << shard.size() << " batches; the last starts at position " << begin
            << " and has " << rows << " rows, " << valid_rows
            << " of them real\n";
  // endregion
}

}  // namespace

int main(int argc, char**) {
  if (argc > 1) {
    std::cerr << "this example has no options\n";
    return 2;
  }
  accelerate::debug_launcher(share_between_processes, {.num_processes = 2});
  read_a_dataset();
  read_a_stream();
  pad_batches();
  join_structs();
  stop_and_resume();
  show_sharding();
}
