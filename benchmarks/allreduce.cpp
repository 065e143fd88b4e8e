// SPDX-License-Identifier: Apache-2.0
// All-reduce between processes on this machine: compares shared memory with
// Gloo.
//
//     build/bin/benchmarks/allreduce [--json] [--quick]
//
// Each case runs in new processes. The two backends run alternately in the same
// processes, so that a busy machine slows down both equally. Also reports the
// time of a plain copy of the same bytes, and the cost of the consistency check
// before a public collective.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "accelerate/group.h"
#include "accelerate/launchers.h"
#include "base/str_cat.h"
#include "comm/group_backends.h"
#include "support/arguments.h"
#include "support/make_group.h"
#include "support/report.h"

namespace accelerate::benchmarks {
namespace {

void all_reduce(const Group& group, at::Tensor& tensor) {
  std::vector<at::Tensor> tensors = {tensor};
  c10d::AllreduceOptions options;
  options.asyncOp = false;
  GroupBackends::cpu(group).allreduce(tensors, options)->wait();
}

std::string name_bytes(std::int64_t bytes) {
  return bytes < (1 << 20) ? str_cat(bytes >> 10, " KiB")
                           : str_cat(bytes >> 20, " MiB");
}

class Bench {
 public:
  Bench(bool json, bool quick)
      : shm_(make_group("shm", Backend::shm)),
        gloo_(make_group("gloo", Backend::gloo)),
        quick_(quick) {
    if (shm_.rank() == 0) {
      report_.emplace(json);
    }
  }

  void run(std::int64_t bytes) {
    const std::int64_t count = bytes / 4;
    at::Tensor plain = at::ones({count});
    at::Tensor shared = shm_.allocate(count, plain);
    at::Tensor gloo_tensor = at::ones({count});
    shared.fill_(1);
    const int repeats = repeats_for(bytes);
    const auto [any, in_segment, gloo] = take_turns(
        repeats,
        [&] { all_reduce(shm_, plain); },
        [&] { all_reduce(shm_, shared); },
        [&] { all_reduce(gloo_, gloo_tensor); });
    const std::string size =
        str_cat(name_bytes(bytes), ", ", shm_.size(), " processes");
    add({str_cat("allreduce ", size), any, gloo});
    add({str_cat("allreduce in segment ", size), in_segment, gloo});
    const double copy = seconds_of(repeats, [&] { gloo_tensor.copy_(plain); });
    add({str_cat("memcpy ", size), copy, gloo});
  }

  // Measures what the comparison of operation, types and shapes adds to a
  // reduction.
  void agreement() {
    at::Tensor tensor = at::ones({16});
    const auto [checked, bare, barrier] = take_turns(
        quick_ ? 200 : 4000,
        [&] { static_cast<void>(shm_.reduce({tensor})); },
        [&] {
          at::Tensor copy = tensor.detach().clone();
          all_reduce(shm_, copy);
        },
        [&] { shm_.barrier(); });
    if (report_) {
      report_->add(
          {str_cat(
               "checked vs. bare allreduce of 64 B, ",
               shm_.size(),
               " processes"),
           checked,
           bare});
      report_->note(str_cat(
          "  the consistency check adds ",
          (checked - bare) * 1e6,
          " µs; alone it takes ",
          barrier * 1e6,
          " µs"));
    }
  }

 private:
  int repeats_for(std::int64_t bytes) const {
    const auto most = quick_ ? 20 : 400;
    return static_cast<int>(std::clamp<std::int64_t>(
        (std::int64_t{2} << 30) / bytes / 20, 5, most));
  }

  // Returns the median times of three functions. The functions run alternately,
  // in forward and reverse order, each several times in a row after a warm-up.
  template <typename A, typename B, typename C>
  std::tuple<double, double, double> take_turns(
      int repeats, const A& a, const B& b, const C& c) {
    std::vector<double> times[3];
    const auto sample = [&](int which, const auto& body) {
      body();
      GroupBackends::cpu(gloo_).barrier()->wait();
      times[which].push_back(seconds_of(repeats, body));
    };
    for (int round = 0; round < (quick_ ? 1 : 3); ++round) {
      sample(0, a);
      sample(1, b);
      sample(2, c);
      sample(2, c);
      sample(1, b);
      sample(0, a);
    }
    return {median(times[0]), median(times[1]), median(times[2])};
  }

  void add(const Comparison& comparison) const {
    if (report_) {
      report_->add(comparison);
    }
  }

  Group shm_;
  Group gloo_;
  bool quick_;
  std::optional<Report> report_;
};

}  // namespace
}  // namespace accelerate::benchmarks

int main(int argc, char** argv) {
  using namespace accelerate::benchmarks;
  check_arguments(
      argc,
      argv,
      {.text = "allreduce [--json] [--quick]\n\n"
               "All-reduce between processes on this machine: compares shared "
               "memory with Gloo."});
  const bool json = has_flag(argc, argv, "--json");
  const bool quick = has_flag(argc, argv, "--quick");
  for (const int processes : {2, 4}) {
    accelerate::debug_launcher(
        [&] {
          at::set_num_threads(1);
          accelerate::benchmarks::Bench bench(json, quick);
          for (std::int64_t bytes = 4 << 10; bytes <= 64 << 20; bytes *= 4) {
            bench.run(bytes);
          }
          bench.run(32 << 20);
          bench.agreement();
        },
        {.num_processes = processes});
  }
}
