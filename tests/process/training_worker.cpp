// SPDX-License-Identifier: Apache-2.0
// One process of a training run that goes well, or does not:
// `training_worker <scenario> <backend> [argument]`.
#include <chrono>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <ATen/Parallel.h>

#include "accelerate/accelerator.h"
#include "accelerate/accelerator_nests.h"
#include "accelerate/data_loader.h"
#include "accelerate/error.h"
#include "accelerate/memory.h"
#include "base/str_cat.h"
#include "support/equality_cases.h"
#include "support/resident_memory.h"
#include "support/training.h"

namespace accelerate {
namespace {

constexpr int kVictim = 1;
// By then buckets are reduced while the backward runs.
constexpr int kBadStep = 3;

void say(const std::string& line) {
  std::cout << line + "\n" << std::flush;
}

// Until the test kills this process, or says something.
void wait_to_be_told() {
  std::string line;
  if (!std::getline(std::cin, line)) {
    throw std::runtime_error("the test is gone");
  }
}

std::string type_of(const std::exception& error) {
  if (dynamic_cast<const MismatchError*>(&error) != nullptr) {
    return "MismatchError";
  }
  if (dynamic_cast<const PeerError*>(&error) != nullptr) {
    return "PeerError";
  }
  if (dynamic_cast<const DistributedError*>(&error) != nullptr) {
    return "DistributedError";
  }
  return "another error";
}

void attempt(const std::string& name, const std::function<void()>& body) {
  try {
    body();
    say(name + ": ok");
  } catch (const Error& error) {
    say(str_cat(
        name,
        ": ",
        type_of(error),
        ": ",
        error.what(),
        "\nhint: ",
        error.hint()));
  }
}

struct Run {
  std::string backend;
  std::vector<std::string> words;

  AcceleratorOptions options() const {
    AcceleratorOptions result;
    result.init_process_group_kwargs = {
        .backend = parse_backend(backend), .timeout = std::chrono::seconds(20)};
    result.ddp_kwargs.bucket_cap_mb = 1e-4;  // Several buckets.
    return result;
  }
};

/// A model that can be interrupted.
struct PausingImpl : torch::nn::Module {
  PausingImpl() { net = register_module("net", make_net()); }
  at::Tensor forward(const at::Tensor& rows) {
    in_forward();
    at::Tensor hidden = torch::tanh(net->first(rows));
    hidden.register_hook([this](const at::Tensor& gradient) {
      in_backward();
      return gradient;
    });
    return at::linear(torch::tanh(net->second(hidden)), net->tied);
  }
  Net net{nullptr};
  std::function<void()> in_forward = [] {};
  std::function<void()> in_backward = [] {};
};
TORCH_MODULE(Pausing);

void train(Accelerator& accelerator, Pausing& model, int steps) {
  SGD optimizer(model->parameters(), 0.1);
  accelerator.prepare(model, optimizer);
  for (int step = 0; step < steps; ++step) {
    const auto rows =
        batch_of(static_cast<int>(accelerator.process_index()), step);
    accelerator.backward(model(rows).pow(2).mean());
    optimizer.step();
    optimizer.zero_grad();
  }
}

// Whether the group is usable. Stays then: nobody shall be taken for dead who
// only was quick.
void ask_again(Accelerator& accelerator) {
  attempt("second", [&] { accelerator.wait_for_everyone(); });
  wait_to_be_told();
}

// Trains until something happens.
void train_and_tell(Accelerator& accelerator, Pausing& model, int steps = 10) {
  attempt("training", [&] { train(accelerator, model, steps); });
  ask_again(accelerator);
}

/// Calls `what` the `kBadStep`-th time, on one rank.
std::function<void()> once(
    const Accelerator& accelerator, const std::function<void()>& what) {
  if (accelerator.process_index() != kVictim) {
    return [] {};
  }
  return [what, calls = 0]() mutable {
    if (calls++ == kBadStep) {
      what();
    }
  };
}

void stops_in_forward(const Run& run) {
  Accelerator accelerator(run.options());
  Pausing model;
  model->in_forward = once(accelerator, [] {
    say("in forward");
    wait_to_be_told();
  });
  train_and_tell(accelerator, model);
}

void stops_in_backward(const Run& run) {
  Accelerator accelerator(run.options());
  Pausing model;
  model->in_backward = once(accelerator, [] {
    say("in backward");
    wait_to_be_told();
  });
  train_and_tell(accelerator, model);
}

struct StoppingRows {
  std::int64_t bad = -1;

  std::int64_t size() const { return 60; }
  at::Tensor get(std::int64_t index) const {
    if (index == bad) {
      say("in get");
      wait_to_be_told();
    }
    return at::full({6}, static_cast<double>(index)).sin();
  }
};

// The argument: `<workers>`, or `dispatch`, where rank 0 reads for all.
void stops_in_loader(const Run& run) {
  const bool dispatch = run.words.at(0) == "dispatch";
  auto options = run.options();
  options.dataloader_config =
      DataLoaderConfiguration{.dispatch_batches = dispatch};
  Accelerator accelerator(options);
  const auto rank = accelerator.process_index();
  const bool bad = rank == (dispatch ? 0 : kVictim);
  DataLoader loader(
      StoppingRows{.bad = bad ? 24 + 2 * rank : -1},
      {.batch_size = 2,
       .num_workers = dispatch ? 0 : std::stoi(run.words.at(0))});
  Net net = make_net();
  SGD optimizer(net->parameters(), 0.1);
  attempt("training", [&] {
    accelerator.prepare(loader, net, optimizer);
    for (auto& batch : loader) {
      accelerator.backward(net_loss(net, batch));
      optimizer.step();
      optimizer.zero_grad();
    }
  });
  ask_again(accelerator);
}

// Not caught by the program: the process ends with it.
void throws_in_forward(const Run& run) {
  Accelerator accelerator(run.options());
  Pausing model;
  model->in_forward = once(
      accelerator, [] { throw std::out_of_range("no such token: 30522"); });
  train_and_tell(accelerator, model);
}

void throws_in_backward(const Run& run) {
  Accelerator accelerator(run.options());
  Pausing model;
  model->in_backward =
      once(accelerator, [] { throw std::out_of_range("no such gradient"); });
  try {
    train(accelerator, model, 10);
  } catch (const std::out_of_range& error) {
    say(str_cat("training: my own error: ", error.what()));
  } catch (const Error& error) {
    say(str_cat("training: ", type_of(error), ": ", error.what()));
  }
  attempt("second", [&] { accelerator.wait_for_everyone(); });
}

void different_models(const Run& run) {
  Accelerator accelerator(run.options());
  const bool other = accelerator.process_index() == kVictim;
  torch::nn::Linear model(3, other ? 5 : 4);
  attempt("prepare", [&] { accelerator.prepare(model); });
  attempt("second", [&] { accelerator.wait_for_everyone(); });
}

// The argument says what the rank with fewer batches does then.
void fewer_batches(const Run& run) {
  Accelerator accelerator(run.options());
  Pausing model;
  const bool fewer = accelerator.process_index() == kVictim;
  if (!fewer) {
    train_and_tell(accelerator, model, 5);
    return;
  }
  train(accelerator, model, 4);
  say("training: ok");
  if (run.words.at(0) == "evaluates") {
    attempt("evaluation", [&] {
      static_cast<void>(accelerator.gather(at::ones({2})));
    });
    ask_again(accelerator);
  }
}

double difference_from_one_process(
    const AcceleratorOptions& options, Kind kind, bool one_forward) {
  Accelerator accelerator(options);
  const auto rank = static_cast<int>(accelerator.process_index());
  Net net = make_net(7 + rank);
  const auto optimizer = make_optimizer(kind, net);
  accelerator.prepare(net, *optimizer);
  for (int step = 0; step < 6; ++step) {
    const auto region = accelerator.accumulate();
    accelerator.backward(net_loss(net, batch_of(rank, step)));
    optimizer->step();
    optimizer->zero_grad();
  }
  const Alone alone{
      .kind = kind,
      .ranks = static_cast<int>(accelerator.num_processes()),
      .micro = static_cast<int>(accelerator.gradient_accumulation_steps()),
      .one_forward = one_forward};
  return largest_difference(net->parameters(), alone.train()->parameters());
}

// Prints how far results are from those of one process.
void equals_one_process(const Run& run) {
  at::set_num_threads(1);
  for (const Kind kind :
       {Kind::sgd, Kind::adamw, Kind::our_sgd, Kind::our_adamw}) {
    for (const int micro : {1, 3}) {
      auto options = run.options();
      options.gradient_accumulation_steps = micro;
      say(str_cat(
          name_of(kind),
          " ",
          micro,
          " ",
          difference_from_one_process(options, kind, true),
          " ",
          difference_from_one_process(options, kind, false)));
    }
  }
  PartialState().wait_for_everyone();
}

// Prints `<case> <difference>` for what `equals_one_process` does not train.
void equals_one_process_in(const Run& run) {
  at::set_num_threads(1);
  for (const Kind kind : {Kind::sgd, Kind::our_adamw}) {
    for (const int micro : {1, 3}) {
      auto options = run.options();
      options.gradient_accumulation_steps = micro;
      const auto name = str_cat(name_of(kind), "_", micro);
      const auto with = [&](const auto& difference) {
        Accelerator accelerator(options);
        return difference(accelerator);
      };
      say(str_cat("uneven_", name, " ", with([&](Accelerator& accelerator) {
                    return uneven_data(accelerator, kind, true);
                  })));
      say(str_cat("two_models_", name, " ", with([&](Accelerator& accelerator) {
                    return two_models(accelerator, kind);
                  })));
      options.mixed_precision = Precision::bf16;
      const auto make = [&] { return Accelerator(options); };
      say(str_cat("bf16_", name, " ", in_bf16(make, kind, false)));
    }
    Accelerator accelerator(run.options());
    say(str_cat(
        "joined_", name_of(kind), " ", uneven_data(accelerator, kind, false)));
  }
  PartialState().wait_for_everyone();
}

// Prints by how many KiB the process grew, after a warm-up.
void memory_of_steps(const Run& run) {
  Accelerator accelerator(run.options());
  Net net = make_net();
  AdamW optimizer(net->parameters(), 1e-3);
  accelerator.prepare(net, optimizer);
  const auto rows = batch_of(static_cast<int>(accelerator.process_index()), 0);
  const auto steps = [&](int count) {
    for (int step = 0; step < count; ++step) {
      accelerator.backward(net_loss(net, rows));
      optimizer.step();
      optimizer.zero_grad();
    }
  };
  steps(200);
  const auto before = resident_kib();
  steps(1000);
  say(str_cat("grew ", resident_kib() - before));
  accelerator.wait_for_everyone();
}

void memory_of_prepare(const Run& run) {
  Accelerator accelerator(run.options());
  const auto cycles = [&](int count) {
    for (int i = 0; i < count; ++i) {
      // 4 MiB of gradients: a leak of buckets would show at once.
      torch::nn::Linear model(1024, 1024);
      AdamW optimizer(model->parameters(), 1e-3);
      accelerator.prepare(model, optimizer);
      for (int step = 0; step < 2; ++step) {
        accelerator.backward(model(at::ones({1, 1024})).sum());
        optimizer.step();
        optimizer.zero_grad();
      }
      accelerator.free_memory();
    }
  };
  cycles(20);
  const auto before = resident_kib();
  cycles(100);
  say(str_cat("grew ", resident_kib() - before));
  accelerator.wait_for_everyone();
}

const std::map<std::string, std::function<void(const Run&)>> kScenarios = {
    {"stops_in_forward", stops_in_forward},
    {"stops_in_backward", stops_in_backward},
    {"stops_in_loader", stops_in_loader},
    {"throws_in_forward", throws_in_forward},
    {"throws_in_backward", throws_in_backward},
    {"different_models", different_models},
    {"fewer_batches", fewer_batches},
    {"equals_one_process", equals_one_process},
    {"equals_one_process_in", equals_one_process_in},
    {"memory_of_steps", memory_of_steps},
    {"memory_of_prepare", memory_of_prepare},
};

}  // namespace
}  // namespace accelerate

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  try {
    accelerate::kScenarios.at(words.at(0))(
        {.backend = words.at(1), .words = {words.begin() + 2, words.end()}});
    return 0;
  } catch (const std::exception& error) {
    std::cout << "uncaught: " << error.what() << std::endl;
    return 1;
  }
}
