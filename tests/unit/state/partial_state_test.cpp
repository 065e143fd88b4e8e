// SPDX-License-Identifier: Apache-2.0
#include "accelerate/partial_state.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "support/message_of.h"
#include "support/run_on_ranks.h"

namespace accelerate {
namespace {

using Variables = std::map<std::string, std::string>;

// Each test starts and ends without a state of the process.
class PartialStateTest : public testing::Test {
 protected:
  PartialStateTest() { PartialState::reset(); }
  ~PartialStateTest() override { PartialState::reset(); }
};

TEST_F(PartialStateTest, IsASingleProcessWithoutALauncher) {
  const PartialState state({.environment = Variables{}});

  EXPECT_EQ(state.process_index(), 0);
  EXPECT_EQ(state.num_processes(), 1);
  EXPECT_EQ(state.local_process_index(), 0);
  EXPECT_EQ(state.node_index(), 0);
  EXPECT_EQ(state.num_nodes(), 1);
  EXPECT_EQ(state.backend(), "none");
  EXPECT_EQ(state.launcher(), "none");
  EXPECT_EQ(state.device(), c10::Device("cpu"));
  EXPECT_EQ(name_of(state.distributed_type()), "NO");
  EXPECT_FALSE(state.use_distributed());
  EXPECT_FALSE(state.fork_launched());
  EXPECT_TRUE(state.is_main_process() && state.is_last_process());
  EXPECT_NO_THROW(state.wait_for_everyone());
}

TEST_F(PartialStateTest, IsSharedByAllHandles) {
  EXPECT_FALSE(PartialState::is_initialized());
  PartialState first({.environment = Variables{}});
  EXPECT_TRUE(PartialState::is_initialized());
  const PartialState second;

  first.destroy_process_group();

  EXPECT_EQ(
      message_of<StateError>([&] { second.wait_for_everyone(); }),
      "destroy_process_group() was called; this process has left its process "
      "group");
  PartialState::reset();
  EXPECT_FALSE(PartialState::is_initialized());
  EXPECT_NO_THROW(
      PartialState({.environment = Variables{}}).wait_for_everyone());
}

struct DifferentOption {
  std::string name;
  std::string text;
  PartialStateOptions options;
};

class SecondCreation : public testing::TestWithParam<DifferentOption> {};

TEST_P(SecondCreation, ErrorNamesTheDifferentOption) {
  PartialState::reset();
  const PartialState first({.environment = Variables{}});

  EXPECT_EQ(
      message_of<StateError>([&] { PartialState second(GetParam().options); }),
      "this process already has a PartialState whose `" + GetParam().name +
          "` is " + GetParam().text);
  PartialState::reset();
}

INSTANTIATE_TEST_SUITE_P(
    PartialState,
    SecondCreation,
    testing::Values(
        DifferentOption{"cpu", "not set; the new value is true", {.cpu = true}},
        DifferentOption{
            "backend",
            "not set; the new value is gloo",
            {.init_process_group = {.backend = Backend::gloo}}},
        DifferentOption{
            "init_method",
            "not set; the new value is env://",
            {.init_process_group = {.init_method = "env://"}}},
        DifferentOption{
            "timeout",
            "not set; the new value is 1 s",
            {.init_process_group = {.timeout = std::chrono::seconds(1)}}},
        DifferentOption{
            "warn_after",
            "not set; the new value is 1 s",
            {.init_process_group = {.warn_after = std::chrono::seconds(1)}}},
        DifferentOption{
            "environment",
            "a map of size 0; the new value is a map of size 1",
            {.environment = Variables{{"A", "b"}}}}),
    [](const auto& test) { return test.param.name; });

TEST_F(PartialStateTest, AcceptsTheSameArgumentsAgain) {
  const PartialStateOptions options = {
      .cpu = true,
      .init_process_group = {.timeout = std::chrono::seconds(1)},
      .environment = Variables{}};
  const PartialState first(options);

  EXPECT_NO_THROW(PartialState second(options));
  EXPECT_NO_THROW(PartialState third);
}

// Runs ranks as threads, each with its own state.
void on_states(int size, const std::function<void(PartialState&)>& body) {
  run_on_ranks(size, quick(Backend::fake), [&](Group& group) {
    PartialState state(group);
    body(state);
  });
}

struct Split {
  int length;
  int processes;
  bool padding;
  std::vector<std::vector<int>> parts;
};

class SplitBetweenProcesses : public testing::TestWithParam<Split> {};

// A dataset that a `DataLoader` accepts.
struct Squares {
  int length = 0;

  std::size_t size() const { return static_cast<std::size_t>(length); }
  int get(std::int64_t index) const { return static_cast<int>(index * index); }
};

TEST_P(SplitBetweenProcesses, SplitsDatasets) {
  const Split& split = GetParam();
  const Squares squares{split.length};

  on_states(split.processes, [&](PartialState& state) {
    const auto part = state.split_between_processes(
        squares, {.apply_padding = split.padding});

    const auto& expected =
        split.parts[static_cast<std::size_t>(state.process_index())];
    ASSERT_EQ(part.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(
          part.get(static_cast<std::int64_t>(i)), expected[i] * expected[i]);
    }
  });
}

// A dataset like LibTorch's: `size` is optional and `get` is not const.
struct Cubes {
  std::optional<std::size_t> size() const { return 4; }
  std::size_t get(std::size_t index) { return index * index * index; }
};

TEST(SplitSequences, SplitsLibTorchDatasets) {
  on_states(2, [](PartialState& state) {
    auto part = state.split_between_processes(Cubes());

    ASSERT_EQ(part.size(), 2U);
    EXPECT_EQ(part.get(1), state.process_index() == 0 ? 1U : 27U);
  });
}

struct Endless {
  std::optional<std::size_t> size() const { return std::nullopt; }
  int get(std::size_t /*index*/) const { return 1; }
};

TEST(SplitSequences, RejectsADatasetWithoutSize) {
  const PartialState state({.environment = Variables{}});

  EXPECT_EQ(
      message_of<ArgumentError>(
          [&] { static_cast<void>(state.split_between_processes(Endless())); }),
      "split_between_processes: the size of the dataset is unknown");
  PartialState::reset();
}

TEST(SplitSequences, SplitsTuplesAndArrays) {
  on_states(2, [](PartialState& state) {
    const std::tuple<std::string, std::string, std::string> words = {
        "a", "b", "c"};
    const std::array<int, 3> numbers = {1, 2, 3};
    const bool first = state.process_index() == 0;

    EXPECT_EQ(
        state.split_between_processes(words),
        first ? (std::vector<std::string>{"a", "b"})
              : (std::vector<std::string>{"c"}));
    EXPECT_EQ(
        state.split_between_processes(numbers, {.apply_padding = true}),
        first ? (std::vector<int>{1, 2}) : (std::vector<int>{3, 3}));
  });
}

TEST_P(SplitBetweenProcesses, SplitsVectorsTensorsAndMapsTheSameWay) {
  const Split& split = GetParam();
  std::vector<int> values(static_cast<std::size_t>(split.length));
  for (int i = 0; i < split.length; ++i) {
    values[static_cast<std::size_t>(i)] = i;
  }
  const at::Tensor tensor = at::arange(split.length, at::kInt);
  const std::map<std::string, at::Tensor> tensors = {
      {"a", tensor}, {"b", tensor.neg()}};

  on_states(split.processes, [&](PartialState& state) {
    const SplitOptions options{.apply_padding = split.padding};
    const auto& expected =
        split.parts[static_cast<std::size_t>(state.process_index())];

    EXPECT_EQ(state.split_between_processes(values, options), expected);
    const at::Tensor part = state.split_between_processes(tensor, options);
    EXPECT_TRUE(
        at::equal(part, at::tensor(expected, at::kInt).view({part.numel()})));
    const auto map = state.split_between_processes(tensors, options);
    EXPECT_TRUE(at::equal(map.at("b"), part.neg()));
  });
}

INSTANTIATE_TEST_SUITE_P(
    PartialState,
    SplitBetweenProcesses,
    testing::Values(
        Split{4, 1, false, {{0, 1, 2, 3}}},
        Split{4, 2, false, {{0, 1}, {2, 3}}},
        Split{5, 2, false, {{0, 1, 2}, {3, 4}}},
        Split{5, 2, true, {{0, 1, 2}, {3, 4, 4}}},
        Split{7, 3, false, {{0, 1, 2}, {3, 4}, {5, 6}}},
        Split{7, 3, true, {{0, 1, 2}, {3, 4, 4}, {5, 6, 6}}},
        Split{1, 3, false, {{0}, {}, {}}},
        Split{1, 3, true, {{0}, {0}, {0}}},
        Split{2, 5, true, {{0}, {1}, {1}, {1}, {1}}},
        Split{0, 2, false, {{}, {}}},
        Split{0, 2, true, {{}, {}}}),
    [](const auto& test) {
      return std::to_string(test.param.length) + "_between_" +
             std::to_string(test.param.processes) +
             (test.param.padding ? "_padded" : "");
    });

TEST_F(PartialStateTest, RejectsMapsWithDifferentLengths) {
  const PartialState state({.environment = Variables{}});
  const std::map<std::string, std::vector<int>> unequal = {
      {"a", {1, 2}}, {"b", {1}}};

  EXPECT_EQ(
      message_of<ArgumentError>(
          [&] { static_cast<void>(state.split_between_processes(unequal)); }),
      "split_between_processes: the values in the map differ in length\n"
      "  a: 2\n  b: 1");
}

TEST_F(PartialStateTest, RejectsScalars) {
  const PartialState state({.environment = Variables{}});

  EXPECT_EQ(
      message_of<ArgumentError>([&] {
        static_cast<void>(state.split_between_processes(at::ones({})));
      }),
      "split_between_processes needs a tensor with at least one dimension");
}

TEST(PartialStateProcesses, RunFunctionsOnOneProcess) {
  std::atomic<int> main = 0;
  std::atomic<int> last = 0;
  std::atomic<int> second = 0;

  on_states(3, [&](PartialState& state) {
    state.on_main_process([&] { ++main; })();
    state.on_last_process([&](int by) { last += by; })(10);
    const auto result = state.on_process(1, [&] { return ++second; })();
    EXPECT_EQ(result.has_value(), state.process_index() == 1);
    EXPECT_EQ(
        state.on_local_process(2, [] { return 1; })().has_value(),
        state.process_index() == 2);
  });

  EXPECT_EQ(main, 1);
  EXPECT_EQ(last, 10);
  EXPECT_EQ(second, 1);
}

TEST(PartialStateProcesses, LetTheMainProcessGoFirst) {
  std::atomic<bool> done = false;

  on_states(3, [&](PartialState& state) {
    auto order = state.main_process_first();
    if (state.is_main_process()) {
      done = true;
    }
    EXPECT_TRUE(done);
  });
}

TEST(PartialStateProcesses, LetTheLocalMainProcessGoFirst) {
  std::atomic<bool> done = false;

  on_states(3, [&](PartialState& state) {
    auto order = state.local_main_process_first();
    state.on_local_main_process([&] { done = true; })();
    EXPECT_TRUE(done);
  });
}

TEST(PartialStateProcesses, RejectAnIndexOutOfRange) {
  on_states(2, [](PartialState& state) {
    EXPECT_EQ(
        message_of<ArgumentError>(
            [&] { static_cast<void>(state.on_process(2, [] {})); }),
        "on_process: index is 2, but the number of processes is 2");
    EXPECT_EQ(
        message_of<ArgumentError>(
            [&] { static_cast<void>(state.on_local_process(-1, [] {})); }),
        "on_local_process: index is -1, but the number of processes is 2");
  });
}

TEST(PartialStateProcesses, PrintOnce) {
  testing::internal::CaptureStdout();

  on_states(3, [](PartialState& state) { state.print("a", 1, ' ', 2.5); });

  EXPECT_EQ(testing::internal::GetCapturedStdout(), "a1 2.5\n");
}

}  // namespace
}  // namespace accelerate
