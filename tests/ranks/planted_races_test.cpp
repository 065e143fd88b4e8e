// SPDX-License-Identifier: Apache-2.0
// Contains deliberate data races. The suppression file, which hides reports
// inside LibTorch, must not hide races in this library, even in code that uses
// LibTorch's types. This test is built only with ThreadSanitizer, which must
// report a race in the process of each test.
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <c10/util/intrusive_ptr.h>

#include "accelerate/group.h"
#include "support/run_on_ranks.h"

namespace accelerate {
namespace {

constexpr int kReported = 66;  // exit status of a process with a report

void on_two_threads(const std::function<void()>& work) {
  std::thread first(work);
  std::thread second(work);
  first.join();
  second.join();
}

// Runs `race` in a separate process and checks that ThreadSanitizer reports it.
template <typename Function>
void expect_report(Function&& race) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        race();
        std::exit(0);
      },
      testing::ExitedWithCode(kReported),
      "ThreadSanitizer: data race");
}

struct Counter : c10::intrusive_ptr_target {
  void count() { value = value + 1; }
  int value = 0;
};

TEST(PlantedRaces, InAPlainVariable) {
  expect_report([] {
    int value = 0;
    on_two_threads([&] { value = value + 1; });
  });
}

TEST(PlantedRaces, BehindAReferenceCount) {
  expect_report([] {
    const auto counter = c10::make_intrusive<Counter>();
    on_two_threads([counter] { counter->count(); });
  });
}

TEST(PlantedRaces, InTheMemoryOfATensor) {
  expect_report([] {
    const at::Tensor tensor = at::zeros({4});
    float* data = tensor.data_ptr<float>();
    on_two_threads([data] { data[0] = data[0] + 1; });
  });
}

TEST(PlantedRaces, BetweenRanksOfAGroup) {
  expect_report([] {
    int shared = 0;
    run_on_ranks(2, quick(Backend::shm), [&](Group& world) {
      world.barrier();
      shared = shared + world.rank();
    });
  });
}

}  // namespace
}  // namespace accelerate
