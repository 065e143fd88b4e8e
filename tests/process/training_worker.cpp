// SPDX-License-Identifier: Apache-2.0
// One process of a training run that succeeds or fails:
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
// A late step, because the first steps reduce buckets only after the backward
// pass.
constexpr int kBadStep = 3;

void print_line(const std::string& line) {
  std::cout << line + "\n" << std::flush;
}

// Waits until the test kills this process or sends a line.
void wait_for_line() {
  std::string line;
  if (!std::getline(std::cin, line)) {
    throw std::runtime_error("the test has exited");
  }
}

std::string type_of(const std::exception& error) {
  if (dynamic_cast<const MismatchError*>(&error) != nullptr) {
    return "MismatchError";
  }
  if (dynamic_cast<const RankError*>(&error) != nullptr) {
    return "RankError";
  }
  if (dynamic_cast<const DistributedError*>(&error) != nullptr) {
    return "DistributedError";
  }
  return "another error";
}

void attempt(const std::string& name, const std::function<void()>& body) {
  try {
    body();
    print_line(name + ": ok");
  } catch (const Error& error) {
    print_line(str_cat(
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
  std::vector<std::string> arguments;

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
  explicit PausingImpl(bool normalizes = false) {
    net = register_module("net", make_net());
    if (normalizes) {
      norm = register_module("norm", torch::nn::BatchNorm1d(9));
    }
  }
  at::Tensor forward(const at::Tensor& rows) {
    in_forward();
    const at::Tensor first = net->first(rows.to(net->tied.device()));
    at::Tensor hidden = torch::tanh(norm ? norm(first) : first);
    hidden.register_hook([this](const at::Tensor& gradient) {
      in_backward();
      return gradient;
    });
    return at::linear(torch::tanh(net->second(hidden)), net->tied);
  }
  Net net{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  std::function<void()> in_forward = [] {};
  std::function<void()> in_backward = [] {};
};
TORCH_MODULE(Pausing);

// With the argument `batch_norm`, the model has a synchronized batch norm.
Pausing make_model(const Run& run, Accelerator& accelerator) {
  Pausing model(run.arguments.at(0) == "batch_norm");
  accelerator.convert_sync_batchnorm(model);
  return model;
}

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

// Checks whether the process group is usable. Then waits, so that the other
// ranks do not detect this rank as dead.
void check_group(Accelerator& accelerator) {
  attempt("second", [&] { accelerator.wait_for_everyone(); });
  wait_for_line();
}

// Trains, prints the error, and checks the group.
void train_and_report(
    Accelerator& accelerator, Pausing& model, int steps = 10) {
  attempt("training", [&] { train(accelerator, model, steps); });
  check_group(accelerator);
}

/// Calls `fault` at step `kBadStep` on the victim.
std::function<void()> on_bad_step(
    const Accelerator& accelerator, const std::function<void()>& fault) {
  if (accelerator.process_index() != kVictim) {
    return [] {};
  }
  return [fault, calls = 0]() mutable {
    if (calls++ == kBadStep) {
      fault();
    }
  };
}

void stops_in_forward(const Run& run) {
  Accelerator accelerator(run.options());
  Pausing model = make_model(run, accelerator);
  model->in_forward = on_bad_step(accelerator, [] {
    print_line("in forward");
    wait_for_line();
  });
  train_and_report(accelerator, model);
}

void stops_in_backward(const Run& run) {
  Accelerator accelerator(run.options());
  Pausing model = make_model(run, accelerator);
  model->in_backward = on_bad_step(accelerator, [] {
    print_line("in backward");
    wait_for_line();
  });
  train_and_report(accelerator, model);
}

struct StoppingRows {
  std::int64_t bad = -1;

  std::int64_t size() const { return 60; }
  at::Tensor get(std::int64_t index) const {
    if (index == bad) {
      print_line("in get");
      wait_for_line();
    }
    return at::full({6}, static_cast<double>(index)).sin();
  }
};

// The argument is the number of workers, or `dispatch` for reading on rank 0.
void stops_in_loader(const Run& run) {
  const bool dispatch = run.arguments.at(0) == "dispatch";
  auto options = run.options();
  options.dataloader_config =
      DataLoaderConfiguration{.dispatch_batches = dispatch};
  Accelerator accelerator(options);
  const auto rank = accelerator.process_index();
  const bool bad = rank == (dispatch ? 0 : kVictim);
  DataLoader loader(
      StoppingRows{.bad = bad ? 24 + 2 * rank : -1},
      {.batch_size = 2,
       .num_workers = dispatch ? 0 : std::stoi(run.arguments.at(0))});
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
  check_group(accelerator);
}

// The program does not catch the exception, so the process exits.
void throws_in_forward(const Run& run) {
  Accelerator accelerator(run.options());
  Pausing model = make_model(run, accelerator);
  model->in_forward = on_bad_step(
      accelerator, [] { throw std::out_of_range("no such token: 30522"); });
  train_and_report(accelerator, model);
}

void throws_in_backward(const Run& run) {
  Accelerator accelerator(run.options());
  Pausing model = make_model(run, accelerator);
  model->in_backward = on_bad_step(
      accelerator, [] { throw std::out_of_range("no such gradient"); });
  try {
    train(accelerator, model, 10);
  } catch (const std::out_of_range& error) {
    print_line(str_cat("training: std::out_of_range: ", error.what()));
  } catch (const Error& error) {
    print_line(str_cat("training: ", type_of(error), ": ", error.what()));
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

// The argument selects what the rank with fewer batches does after its last
// batch.
void fewer_batches(const Run& run) {
  Accelerator accelerator(run.options());
  Pausing model;
  const bool fewer = accelerator.process_index() == kVictim;
  if (!fewer) {
    train_and_report(accelerator, model, 5);
    return;
  }
  train(accelerator, model, 4);
  print_line("training: ok");
  if (run.arguments.at(0) == "evaluates") {
    attempt("evaluation", [&] {
      static_cast<void>(accelerator.gather(at::ones({2})));
    });
    check_group(accelerator);
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
  const SingleProcessTraining alone{
      .kind = kind,
      .ranks = static_cast<int>(accelerator.num_processes()),
      .micro_batches =
          static_cast<int>(accelerator.gradient_accumulation_steps()),
      .one_forward = one_forward};
  return largest_difference(net->parameters(), alone.train()->parameters());
}

// Prints the difference from training in one process.
void matches_one_process(const Run& run) {
  at::set_num_threads(1);
  for (const Kind kind :
       {Kind::torch_sgd, Kind::torch_adamw, Kind::sgd, Kind::adamw}) {
    for (const int micro : {1, 3}) {
      auto options = run.options();
      options.gradient_accumulation_steps = micro;
      print_line(str_cat(
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

// Prints `<case> <difference>` for cases not in `matches_one_process`.
void matches_one_process_in(const Run& run) {
  at::set_num_threads(1);
  for (const Kind kind : {Kind::torch_sgd, Kind::adamw}) {
    for (const int micro : {1, 3}) {
      auto options = run.options();
      options.gradient_accumulation_steps = micro;
      const auto name = str_cat(name_of(kind), "_", micro);
      const auto run_case = [&](const auto& difference) {
        Accelerator accelerator(options);
        return difference(accelerator);
      };
      print_line(
          str_cat("uneven_", name, " ", run_case([&](Accelerator& accelerator) {
                    return uneven_data(accelerator, kind, true);
                  })));
      print_line(str_cat(
          "two_models_", name, " ", run_case([&](Accelerator& accelerator) {
            return two_models(accelerator, kind);
          })));
      options.mixed_precision = Precision::bf16;
      const auto make = [&] { return Accelerator(options); };
      print_line(str_cat("bf16_", name, " ", in_bf16(make, kind, false)));
    }
    Accelerator accelerator(run.options());
    print_line(str_cat(
        "joined_", name_of(kind), " ", uneven_data(accelerator, kind, false)));
  }
  PartialState().wait_for_everyone();
}

// Prints by how many KiB the process grew after a warm-up.
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
  print_line(str_cat("grew ", resident_kib() - before));
  accelerator.wait_for_everyone();
}

void memory_of_prepare(const Run& run) {
  Accelerator accelerator(run.options());
  const auto cycles = [&](int count) {
    for (int i = 0; i < count; ++i) {
      // 4 MiB of gradients, so that a leak of buckets is visible.
      torch::nn::Linear model(1024, 1024);
      AdamW optimizer(model->parameters(), 1e-3);
      accelerator.prepare(model, optimizer);
      for (int step = 0; step < 2; ++step) {
        accelerator.backward(
            model(at::ones({1, 1024}, accelerator.device())).sum());
        optimizer.step();
        optimizer.zero_grad();
      }
      accelerator.free_memory();
    }
  };
  cycles(20);
  const auto before = resident_kib();
  cycles(100);
  print_line(str_cat("grew ", resident_kib() - before));
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
    {"matches_one_process", matches_one_process},
    {"matches_one_process_in", matches_one_process_in},
    {"memory_of_steps", memory_of_steps},
    {"memory_of_prepare", memory_of_prepare},
};

}  // namespace
}  // namespace accelerate

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    if (arguments.at(1) == "nccl") {
      accelerate::reference_device() = c10::Device(c10::kCUDA, 0);
    }
    accelerate::kScenarios.at(arguments.at(0))(
        {.backend = arguments.at(1),
         .arguments = {arguments.begin() + 2, arguments.end()}});
    return 0;
  } catch (const std::exception& error) {
    std::cout << "uncaught: " << error.what() << std::endl;
    return 1;
  }
}
