// SPDX-License-Identifier: Apache-2.0
// A training step of a small model: compares the Accelerator and this library's
// AdamW with LibTorch's c10d::Reducer over Gloo and torch::optim::AdamW.
//
//     build/bin/benchmarks/train_step [--json] [--quick]
//
// Both models run in the same processes and alternate after every step. With
// one process, the baseline is a plain LibTorch loop, once with LibTorch's
// AdamW and once with this library's AdamW. The second ratio is the cost of the
// Accelerator.
//
// With two processes, the benchmark also reports how much longer a backward
// pass with averaging takes than a backward pass in `no_sync`, relative to the
// backward pass and to the same all-reduces alone.
#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/Parallel.h>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <torch/nn.h>
#include <torch/optim.h>

#include "accelerate/accelerator.h"
#include "accelerate/launchers.h"
#include "accelerate/optim.h"
#include "base/str_cat.h"
#include "comm/group_backends.h"
#include "support/arguments.h"
#include "support/make_group.h"
#include "support/report.h"

namespace accelerate::benchmarks {
namespace {

using torch::nn::Linear;
using torch::nn::Sequential;

// A model of 200 small parameters.
Sequential make_mlp() {
  Sequential model;
  for (int i = 0; i < 100; ++i) {
    model->push_back(Linear(32, 32));
    model->push_back(torch::nn::Tanh());
  }
  return model;
}

struct EncoderImpl : torch::nn::Module {
  EncoderImpl() {
    auto layer = torch::nn::TransformerEncoderLayer(
        torch::nn::TransformerEncoderLayerOptions(128, 2)
            .dim_feedforward(512)
            .dropout(0));
    encoder = register_module(
        "encoder",
        torch::nn::TransformerEncoder(
            torch::nn::TransformerEncoderOptions(layer, 2)));
    embedding = register_module("embedding", torch::nn::Embedding(8000, 128));
    head = register_module("head", Linear(128, 2));
  }
  at::Tensor forward(const at::Tensor& ids) {
    return head(encoder(embedding(ids)).mean(0));
  }
  torch::nn::TransformerEncoder encoder{nullptr};
  torch::nn::Embedding embedding{nullptr};
  Linear head{nullptr};
};
TORCH_MODULE(Encoder);

at::Tensor loss_of(Sequential& model) {
  static const at::Tensor rows = at::ones({8, 32});
  return model->forward(rows).pow(2).mean();
}

at::Tensor loss_of(Encoder& model) {
  static const at::Tensor ids =
      at::arange(64 * 8, at::kLong).mul(17).remainder(8000).view({64, 8});
  return model(ids).pow(2).mean();
}

// The loop that a LibTorch user writes by hand.
template <typename Model>
class LibTorchLoop {
 public:
  LibTorchLoop(Model model, const Group* gloo, bool our_optimizer)
      : model_(model), parameters_(model->parameters()) {
    if (our_optimizer) {
      optimizer_ = std::make_unique<AdamW>(parameters_, 1e-4);
    } else {
      optimizer_ = std::make_unique<torch::optim::AdamW>(parameters_, 1e-4);
    }
    if (gloo != nullptr) {
      auto [buckets, limits] = c10d::compute_bucket_assignment_by_size(
          parameters_, {1 << 20, 25 << 20});
      std::reverse(buckets.begin(), buckets.end());
      reducer_.emplace(
          parameters_,
          buckets,
          GroupBackends::process_group(*gloo),
          std::vector<bool>(parameters_.size(), false),
          25 << 20,
          false,
          /*gradient_as_bucket_view=*/false,
          std::unordered_map<std::size_t, std::string>{},
          1 << 20,
          false,
          false,
          std::vector<std::int64_t>{});
    }
  }

  void step() {
    if (reducer_) {
      reducer_->prepare_for_forward();
      if (reducer_->should_rebuild_buckets()) {
        reducer_->rebuild_buckets();
      }
    }
    const at::Tensor loss = loss_of(model_);
    if (reducer_) {
      reducer_->prepare_for_backward({loss});
    }
    loss.backward();
    optimizer_->step();
    optimizer_->zero_grad();
  }

 private:
  Model model_;
  std::vector<at::Tensor> parameters_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::optional<c10d::Reducer> reducer_;
};

template <typename Model>
class AcceleratorLoop {
 public:
  AcceleratorLoop(Model model, const Group& group)
      : accelerator_(PartialState(group), {}),
        model_(model),
        optimizer_(model->parameters(), 1e-4) {
    accelerator_.prepare(model_, optimizer_);
  }

  void step() {
    const at::Tensor loss = loss_of(model_);
    accelerator_.backward(loss);
    optimizer_.step();
    optimizer_.zero_grad();
  }

  /// Returns the seconds that the backward pass alone takes while all processes
  /// run it.
  double backward(bool sync) {
    const at::Tensor loss = loss_of(model_);
    accelerator_.wait_for_everyone();
    double seconds = 0;
    if (sync) {
      seconds = seconds_of(1, [&] { accelerator_.backward(loss); });
    } else {
      const auto local = accelerator_.no_sync();
      seconds = seconds_of(1, [&] { accelerator_.backward(loss); });
    }
    optimizer_.zero_grad();
    return seconds;
  }

 private:
  Accelerator accelerator_;
  Model model_;
  AdamW optimizer_;
};

struct Options {
  bool json;
  bool quick;
};

// All orders of the three loops. The order affects the result, because the
// previous loop leaves a warm cache and the loop that is built first gets
// different memory. Each order is used equally often.
constexpr int kOrders[6][3] = {
    {0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {0, 2, 1}, {2, 0, 1}, {1, 0, 2}};

using Times = std::array<std::vector<double>, 3>;

// Measures one set of the three loops, built in the given order.
template <typename Model>
void measure(
    const std::function<Model()>& make,
    const PartialState& state,
    const Group* gloo,
    const int (&built)[3],
    int rounds,
    Times& times) {
  std::optional<AcceleratorLoop<Model>> ours;
  std::optional<LibTorchLoop<Model>> libtorch;
  std::optional<LibTorchLoop<Model>> plain;
  const std::function<void()> builders[] = {
      [&] { ours.emplace(make(), state.group()); },
      [&] { libtorch.emplace(make(), gloo, false); },
      [&] { plain.emplace(make(), gloo, true); }};
  const std::function<void()> steps[] = {
      [&] { ours->step(); }, [&] { libtorch->step(); }, [&] { plain->step(); }};
  for (const int which : built) {
    builders[which]();
    seconds_of(5, steps[which]);  // Runs until the bucket order is final.
  }
  for (int round = 0; round < rounds; ++round) {
    for (const int which : kOrders[round % 6]) {
      state.wait_for_everyone();
      times[static_cast<std::size_t>(which)].push_back(
          seconds_of(1, steps[which]));
    }
  }
}

template <typename Model>
void compare(
    const std::string& name,
    const std::function<Model()>& make,
    const PartialState& state,
    const Report* report,
    const Options& options) {
  std::optional<Group> gloo;
  if (state.use_distributed()) {
    gloo = make_group(name, Backend::gloo);
  }
  Times times;
  for (const auto& built : kOrders) {
    measure(
        make,
        state,
        gloo ? &*gloo : nullptr,
        built,
        options.quick ? 1 : 42,
        times);
  }
  if (report != nullptr) {
    const auto processes = str_cat(state.num_processes(), " processes");
    report->add(
        {str_cat(name, " vs. LibTorch's components, ", processes),
         median(times[0]),
         median(times[1])});
    report->add(
        {str_cat(name, " vs. LibTorch with our AdamW, ", processes),
         median(times[0]),
         median(times[2])});
  }
}

// The all-reduces of a model's gradients, without any other work.
double communication(std::int64_t elements, const Group& group, int repeats) {
  std::vector<at::Tensor> buckets;
  for (std::int64_t limit = 1 << 18; elements > 0; limit = 25 << 18) {
    buckets.push_back(
        group.allocate(std::min(elements, limit), at::empty({0})).zero_());
    elements -= buckets.back().numel();
  }
  c10d::AllreduceOptions allreduce;
  allreduce.reduceOp = c10d::ReduceOp::AVG;
  allreduce.asyncOp = false;
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    group.barrier();
    times.push_back(seconds_of(1, [&] {
      for (const at::Tensor& bucket : buckets) {
        std::vector<at::Tensor> tensors = {bucket};
        GroupBackends::cpu(group).allreduce(tensors, allreduce)->wait();
      }
    }));
  }
  return median(times);
}

template <typename Model>
void measure_overlap(
    const std::string& name,
    Model model,
    const PartialState& state,
    const Report* report,
    const Options& options) {
  std::int64_t elements = 0;
  for (const at::Tensor& parameter : model->parameters()) {
    elements += parameter.numel();
  }
  AcceleratorLoop<Model> ours(model, state.group());
  std::vector<double> times[2];
  const int repeats = options.quick ? 5 : 200;
  for (int i = -5; i < repeats; ++i) {
    for (const int sync : {i % 2 == 0 ? 0 : 1, i % 2 == 0 ? 1 : 0}) {
      const double seconds = ours.backward(sync == 1);
      if (i >= 0) {
        times[sync].push_back(seconds);
      }
    }
  }
  const double alone = communication(elements, state.group(), repeats);
  if (report != nullptr) {
    const double local = median(times[0]);
    const double exposed = median(times[1]) - local;
    const auto report_share = [&](const std::string& part, double seconds) {
      report->measure(
          str_cat(name, ", exposed communication, relative to ", part),
          100 * exposed / seconds,
          "%");
    };
    report_share("the backward", local);
    report_share("the communication alone", alone);
  }
}

void run(const Options& options) {
  at::set_num_threads(1);
  const PartialState state;
  std::optional<Report> report;
  if (state.is_main_process()) {
    report.emplace(options.json);
  }
  const Report* out = report ? &*report : nullptr;
  compare<Sequential>("MLP of 200 parameters", make_mlp, state, out, options);
  compare<Encoder>(
      "small encoder", [] { return Encoder(); }, state, out, options);
  if (state.use_distributed()) {
    measure_overlap("MLP of 200 parameters", make_mlp(), state, out, options);
    measure_overlap("small encoder", Encoder(), state, out, options);
  }
}

}  // namespace
}  // namespace accelerate::benchmarks

int main(int argc, char** argv) {
  using namespace accelerate::benchmarks;
  check_arguments(
      argc,
      argv,
      {.text = "train_step [--json] [--quick]\n\n"
               "Measures a training step of a small model, compared with "
               "LibTorch."});
  const Options options{
      has_flag(argc, argv, "--json"), has_flag(argc, argv, "--quick")};
  for (const int processes : {1, 2}) {
    accelerate::debug_launcher(
        [&] { run(options); }, {.num_processes = processes});
  }
}
