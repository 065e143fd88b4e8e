// SPDX-License-Identifier: Apache-2.0
// What a call to `log` costs the thread that trains.
//
//     build/bin/benchmarks/tracking [--json]
//
// Also logs tensors on the GPU if there is one.
// The trackers are `jsonl` and `tensorboard`. The thread computes for 100 µs
// between two calls, as in a fast training loop, so the threads of the trackers
// sleep, work and wake as in a run.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "accelerate/accelerator.h"
#include "base/new_file.h"
#include "support/arguments.h"
#include "support/report.h"

namespace accelerate::benchmarks {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kCalls = 5000;

void compute_until(Clock::time_point end) {
  while (Clock::now() < end) {
  }
}

double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(
      share * static_cast<double>(values.size() - 1))];
}

void measure_calls(
    const Report& report,
    const std::string& name,
    const std::function<void()>& call) {
  std::vector<double> microseconds;
  for (int i = 0; i < kCalls; ++i) {
    const auto begin = Clock::now();
    call();
    const std::chrono::duration<double, std::micro> time = Clock::now() - begin;
    microseconds.push_back(time.count());
    compute_until(Clock::now() + std::chrono::microseconds(100));
  }
  report.measure(name + ", median", median(microseconds), "µs");
  report.measure(name + ", 99 %", quantile(microseconds, 0.99), "µs");
}

void measure_accelerator(const Report& report) {
  const std::string folder = create_folder(
      (std::filesystem::temp_directory_path() / "tracking-").string());
  {
    Accelerator accelerator(
        {.project_dir = folder, .log_with = {"jsonl", "tensorboard"}});
    accelerator.init_trackers("benchmark");
    const std::vector<std::string> keys{
        "train/loss",
        "train/lr",
        "grad_norm",
        "epoch",
        "samples",
        "tokens",
        "accuracy",
        "f1",
        "scale",
        "seconds"};
    const auto log_all = [&](const auto& value) {
      LogValues values;
      values.reserve(keys.size());
      for (const std::string& key : keys) {
        values.push_back({key, value});
      }
      accelerator.log(values);
    };
    measure_calls(report, "ten numbers", [&] { log_all(0.5); });
    const at::Tensor on_cpu = at::full({}, 0.5);
    measure_calls(report, "ten tensors on the CPU", [&] { log_all(on_cpu); });
    if (!accelerator.device().is_cpu()) {
      const at::Tensor on_device = on_cpu.to(accelerator.device());
      measure_calls(
          report, "ten tensors on the GPU", [&] { log_all(on_device); });
    }
    measure_calls(
        report, "one number", [&] { accelerator.log({{"loss", 0.5}}); });
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace accelerate::benchmarks

int main(int argc, char** argv) {
  using namespace accelerate::benchmarks;
  check_arguments(
      argc,
      argv,
      {.text = "tracking [--json]\n\n"
               "Measures what a call to `log` costs the thread that trains."});
  measure_accelerator(Report(has_flag(argc, argv, "--json")));
  return 0;
}
