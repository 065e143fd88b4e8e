// SPDX-License-Identifier: Apache-2.0
// A training step that uses only the fused blocks: forward, backward and AdamW
// as one CUDA graph, in bf16 with fp32 master weights.
//
//     build/bin/benchmarks/gpu_step_blocks [--json] [--profile] [--eager]
//         [--side-stream ROWS] [--only TEXT] [--skip TEXT]
//
// Prints a line for each workload in the script for Hugging Face Accelerate.
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

#include "cuda/blocks/adamw_step.h"
#include "cuda/blocks/side_stream.h"
#include "gpu_step_models.h"
#include "gpu_step_profile.h"
#include "gpu_step_report.h"
#include "support/arguments.h"

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Options {
  bool json = false;
  bool profile = false;
  bool eager = false;
  std::string only;
  std::string skip = "no such";
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--json") {
      options.json = true;
    } else if (argument == "--profile") {
      options.profile = true;
    } else if (argument == "--eager") {
      options.eager = true;
    } else if (argument == "--side-stream" && i + 1 < argc) {
      accelerate::cuda::side_stream_max_rows() = std::stoll(argv[++i]);
    } else if ((argument == "--only" || argument == "--skip") && i + 1 < argc) {
      (argument == "--only" ? options.only : options.skip) = argv[++i];
    } else {
      std::fprintf(stderr, "error: unknown option `%s`\n", argument.c_str());
      std::exit(2);
    }
  }
  return options;
}

// A model with its optimizer state.
class Training {
 public:
  explicit Training(Workload work) : work_(std::move(work)) {
    const auto scalar = at::TensorOptions(at::kFloat).device(at::kCUDA);
    update_.parameters = work_.parameters;
    for (const auto& parameter : work_.parameters) {
      update_.exp_avgs.push_back(at::zeros_like(parameter));
      update_.exp_avg_sqs.push_back(at::zeros_like(parameter));
    }
    update_.lr = at::full({1}, 1e-4, scalar);
    steps_ = at::zeros({1}, scalar);
    update_.steps.assign(work_.parameters.size(), steps_);
  }

  void step() {
    {
      const at::NoGradGuard no_grad;
      steps_.add_(1);
    }
    loss_ = work_.loss();
    loss_.backward();
    update_.gradients.clear();
    for (auto& parameter : work_.parameters) {
      update_.gradients.push_back(parameter.grad());
    }
    accelerate::cuda::adamw_step(update_);
    update_.gradients.clear();
    for (auto& parameter : work_.parameters) {
      parameter.mutable_grad() = at::Tensor();
    }
    loss_ = loss_.detach();
  }

  double loss() const { return loss_.item<double>(); }
  const Workload& work() const { return work_; }

 private:
  Workload work_;
  accelerate::AdamWStep update_;
  at::Tensor steps_;
  at::Tensor loss_;
};

double timed_ms(const std::function<void()>& step, int steps) {
  c10::cuda::device_synchronize();
  const auto start = Clock::now();
  for (int i = 0; i < steps; ++i) {
    step();
  }
  c10::cuda::device_synchronize();
  return seconds_since(start) * 1e3 / steps;
}

void print_result(
    StepReport& report,
    const Options& options,
    const Training& training,
    const std::string& name,
    double ms,
    double warm_up) {
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(0);
  const double peak = static_cast<double>(stats.allocated_bytes[0].peak) / 1e9;
  report.add(
      {name,
       options.eager ? "eager" : "graph",
       ms,
       training.work().units,
       warm_up,
       peak,
       training.loss()});
}

void measure(
    StepReport& report, const Options& options, const WorkloadMaker& maker) {
  auto generator = at::cuda::detail::getDefaultCUDAGenerator();
  generator.set_current_seed(0);
  Training training(maker.make());
  c10::cuda::CUDACachingAllocator::resetPeakStats(0);
  const auto start = Clock::now();
  // All steps use the capture stream, because gradient nodes store the stream
  // on which they were created.
  const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
  for (int i = 0; i < 3; ++i) {
    training.step();
  }
  std::function<void()> step = [&] { training.step(); };
  at::cuda::CUDAGraph graph;
  if (!options.eager) {
    c10::cuda::device_synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();
    graph.register_generator_state(generator);
    graph.capture_begin();
    training.step();
    graph.capture_end();
    step = [&] { graph.replay(); };
    step();
  }
  c10::cuda::device_synchronize();
  const double warm_up = seconds_since(start);
  const double ms = timed_ms(step, training.work().steps);
  print_result(report, options, training, maker.name, ms, warm_up);
  if (options.profile) {
    print_profile(step);
  }
}

}  // namespace

int main(int argc, char** argv) {
  accelerate::benchmarks::check_arguments(
      argc,
      argv,
      {.text =
           "gpu_step_blocks [--json] [--profile] [--eager]\n"
           "                  [--side-stream ROWS] [--only TEXT] "
           "[--skip TEXT]\n\n"
           "Measures a training step with only the fused blocks, as one CUDA "
           "graph.",
       .takes_positional = true});
  const Options options = parse(argc, argv);
  StepReport report(options.json);
  for (const WorkloadMaker& maker : workloads()) {
    if (maker.name.starts_with(options.only) &&
        !maker.name.starts_with(options.skip)) {
      measure(report, options, maker);
      c10::cuda::CUDACachingAllocator::emptyCache();
    }
  }
  return 0;
}
