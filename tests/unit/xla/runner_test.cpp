// SPDX-License-Identifier: Apache-2.0
// Recorded programs on 1, 2 and 4 devices of the CPU plugin.
#include "xla/graph/runner.h"

#include <cmath>
#include <filesystem>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "support/message_of.h"
#include "support/temporary_directory.h"
#include "unit/xla/cpu_client.h"
#include "xla/graph/build.h"

namespace accelerate::xla {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;

constexpr auto f32 = ElementType::f32;

std::vector<float> counted(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

class XlaRunner {
 public:
  explicit XlaRunner(
      std::int64_t devices, std::optional<ProgramStore> store = std::nullopt)
      : runner(cpu_plugin(), cpu_client(devices), std::move(store)) {}

  Value upload(const Shape& shape, const Sharding& sharding = {}) {
    return runner.upload(
        counted(element_count(shape)).data(), f32, shape, sharding);
  }
  Value run(const Value& value, const Value& previous = nullptr) {
    return runner.run({{value, previous, {}}}, {})[0];
  }
  std::vector<float> values(const Value& value) {
    const Value result = value->op == Op::input ? value : run(value);
    std::vector<float> to(
        static_cast<std::size_t>(element_count(result->shape)));
    runner.download(*result, to.data());
    return to;
  }

  Runner runner;
};

class XlaRunnerOn : public testing::TestWithParam<std::int64_t> {};

TEST_P(XlaRunnerOn, ReadsBackWhatItUploaded) {
  XlaRunner xla(GetParam());

  EXPECT_EQ(xla.values(xla.upload({8, 3})), counted(24));
  EXPECT_EQ(xla.values(xla.upload({8, 3}, {.dimension = 0})), counted(24));
}

// The rows are divided over the devices; the sum needs all of them.
TEST_P(XlaRunnerOn, ComputesWithDividedValues) {
  XlaRunner xla(GetParam());
  const Value x = xla.upload({8, 3}, {.dimension = 0});
  const Value w = xla.upload({3, 2});
  const Value y = dot(x, w, {.contract_a = {1}, .contract_b = {0}});

  const auto row_sums = xla.values(reduce(Op::add, y, {0}));

  // Column sums of x are 84, 92, 100.
  EXPECT_THAT(row_sums, ElementsAre(584, 860));
}

TEST_P(XlaRunnerOn, KeepsAResultDivided) {
  XlaRunner xla(GetParam());
  const Value x = xla.upload({8}, {.dimension = 0});
  const Value y = binary(Op::add, x, x);

  const Value result = xla.runner.run({{y, nullptr, {.dimension = 0}}}, {})[0];

  EXPECT_EQ(result->array->sharding.dimension, 0);
  EXPECT_THAT(xla.values(result), ElementsAre(0, 2, 4, 6, 8, 10, 12, 14));
}

INSTANTIATE_TEST_SUITE_P(
    Devices,
    XlaRunnerOn,
    testing::Values(1, 2, 4),
    testing::PrintToStringParamName());

TEST(XlaRunner, RefusesAnUnevenDivision) {
  XlaRunner xla(2);

  EXPECT_EQ(
      message_of<ArgumentError>([&] { xla.upload({3}, {.dimension = 0}); }),
      "a dimension of size 3 cannot be divided over 2 devices");
}

TEST(XlaRunner, CompilesOncePerProgram) {
  XlaRunner xla(1);
  const Value x = xla.upload({4});

  for (const double rate : {0.5, 0.25, 2.0}) {
    EXPECT_THAT(
        xla.values(binary(Op::multiply, x, scalar(rate, f32))),
        ElementsAre(0, rate, 2 * rate, 3 * rate));
  }

  EXPECT_EQ(xla.runner.counts().compiled, 1);
  EXPECT_EQ(xla.runner.counts().executed, 3);
}

TEST(XlaRunner, CompilesAgainForAnotherConstantOrShape) {
  XlaRunner xla(1);

  xla.run(binary(Op::multiply, xla.upload({4}), constant(2, f32)));
  xla.run(binary(Op::multiply, xla.upload({4}), constant(3, f32)));
  xla.run(binary(Op::multiply, xla.upload({5}), constant(3, f32)));

  EXPECT_EQ(xla.runner.counts().compiled, 3);
}

TEST(XlaRunner, CarriesScalarsOfEveryFloatingType) {
  XlaRunner xla(1);
  const Value sum = binary(
      Op::add,
      convert(scalar(1.0 / 3, ElementType::f64), f32),
      binary(
          Op::add,
          convert(scalar(2, ElementType::bf16), f32),
          convert(scalar(4, ElementType::f16), f32)));

  EXPECT_THAT(xla.values(sum), ElementsAre(FloatNear(6.3333335F, 1e-6F)));
}

TEST(XlaRunner, DonatesAValueThatNothingNeeds) {
  XlaRunner xla(1);
  const Value x = xla.upload({4});

  xla.run(binary(Op::add, x, x), x);

  EXPECT_EQ(xla.runner.counts().donated, 1);
  EXPECT_TRUE(x->array->buffers[0].is_deleted());
}

TEST(XlaRunner, KeepsAValueThatSomethingNeeds) {
  XlaRunner xla(1);
  const Value x = xla.upload({4});

  xla.runner.run({{binary(Op::add, x, x), x, {}}}, {x.get()});

  EXPECT_EQ(xla.runner.counts().donated, 0);
  EXPECT_THAT(xla.values(x), ElementsAre(0, 1, 2, 3));
}

TEST(XlaRunner, LoadsAProgramThatAnotherRunnerCompiled) {
  TemporaryDirectory directory;
  const auto folder = directory.path() / "programs";
  XlaRunner first(1, ProgramStore(folder));
  first.run(binary(Op::add, first.upload({4}), constant(7, f32)));
  EXPECT_EQ(first.runner.counts().compiled, 1);

  XlaRunner second(1, ProgramStore(folder));
  EXPECT_THAT(
      second.values(binary(Op::add, second.upload({4}), constant(7, f32))),
      ElementsAre(7, 8, 9, 10));
  EXPECT_EQ(second.runner.counts().compiled, 0);
  EXPECT_EQ(second.runner.counts().loaded, 1);
}

TEST(XlaRunner, CompilesWhenTheStoredProgramDoesNotLoad) {
  TemporaryDirectory directory;
  const auto folder = directory.path() / "programs";
  XlaRunner first(1, ProgramStore(folder));
  first.run(binary(Op::add, first.upload({4}), constant(8, f32)));
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    std::filesystem::resize_file(file.path(), 100);
  }

  XlaRunner second(1, ProgramStore(folder));
  second.run(binary(Op::add, second.upload({4}), constant(8, f32)));

  EXPECT_EQ(second.runner.counts().compiled, 1);
}

// ---- the text of each kind of operation ----

struct Case {
  std::string name;
  std::function<Value(XlaRunner&)> make;
  std::vector<float> expected;
};

class XlaOperation : public testing::TestWithParam<Case> {};

TEST_P(XlaOperation, ComputesItsResult) {
  XlaRunner xla(1);

  EXPECT_THAT(
      xla.values(convert(GetParam().make(xla), f32)),
      Pointwise(FloatNear(1e-6F), GetParam().expected));
}

Value row(XlaRunner& xla) {
  return xla.upload({4});
}
Value matrix(XlaRunner& xla) {
  return xla.upload({2, 3});
}
Value indices(std::vector<std::int64_t> list, const Shape& shape) {
  std::vector<Value> parts;
  for (const std::int64_t index : list) {
    parts.push_back(constant_integer(index, ElementType::i64, {1}));
  }
  return reshape(concatenate(parts, 0), shape);
}

const Case kCases[] = {
    {"Iota", [](XlaRunner&) { return iota(f32, {2, 2}, 1); }, {0, 1, 0, 1}},
    {"Infinity",
     [](XlaRunner& x) {
       return convert(
           compare(Compare::lt, row(x), constant(INFINITY, f32)), f32);
     },
     {1, 1, 1, 1}},
    {"Transpose",
     [](XlaRunner& x) { return transpose(matrix(x), {1, 0}); },
     {0, 3, 1, 4, 2, 5}},
    {"Broadcast",
     [](XlaRunner& x) { return broadcast(x.upload({2, 1}), {2, 2}); },
     {0, 0, 1, 1}},
    {"Slice",
     [](XlaRunner& x) { return slice(matrix(x), {0, 1}, {2, 3}); },
     {1, 2, 4, 5}},
    {"StridedSlice",
     [](XlaRunner& x) { return slice(row(x), {0}, {4}, {2}); },
     {0, 2}},
    {"UpdateSlice",
     [](XlaRunner& x) {
       return update_slice(row(x), constant(9, f32, {2}), {1});
     },
     {0, 9, 9, 3}},
    {"Concatenate",
     [](XlaRunner& x) {
       return concatenate({x.upload({2}), x.upload({1})}, 0);
     },
     {0, 1, 0}},
    {"Pad",
     [](XlaRunner& x) {
       return pad(x.upload({2}), constant(7, f32), {1}, {2}, {1});
     },
     {7, 0, 7, 1, 7, 7}},
    {"Reverse",
     [](XlaRunner& x) { return reverse(row(x), {0}); },
     {3, 2, 1, 0}},
    {"Select",
     [](XlaRunner& x) {
       return select(
           compare(Compare::gt, row(x), constant(1, f32)),
           row(x),
           constant(-1, f32));
     },
     {-1, -1, 2, 3}},
    {"Erf",
     [](XlaRunner& x) { return unary(Op::erf, x.upload({2})); },
     {0, 0.8427008F}},
    {"BatchedDot",
     [](XlaRunner& x) {
       return dot(
           x.upload({2, 1, 2}),
           x.upload({2, 2, 1}),
           {.batch_a = {0},
            .batch_b = {0},
            .contract_a = {2},
            .contract_b = {1}});
     },
     {1, 13}},
    {"Convolution",
     [](XlaRunner& x) {
       return convolution(
           x.upload({1, 1, 4}),
           constant(1, f32, {1, 1, 2}),
           {.strides = {1},
            .low = {1},
            .high = {0},
            .a_dilation = {1},
            .b_dilation = {1}});
     },
     {0, 1, 3, 5}},
    {"ReduceMaximum",
     [](XlaRunner& x) { return reduce(Op::maximum, matrix(x), {1}); },
     {2, 5}},
    {"ReduceKeepsDims",
     [](XlaRunner& x) {
       return broadcast(reduce(Op::add, matrix(x), {0}, true), {1, 3});
     },
     {3, 5, 7}},
    {"ReduceWindow",
     [](XlaRunner& x) {
       return reduce_window(
           Op::maximum,
           row(x),
           {.size = {2},
            .strides = {2},
            .low = {0},
            .high = {0},
            .dilation = {1}});
     },
     {1, 3}},
    {"SortDescending",
     [](XlaRunner& x) {
       return sort(row(x), iota(ElementType::i64, {4}, 0), 0, true).second;
     },
     {3, 2, 1, 0}},
    {"Take",
     [](XlaRunner& x) { return take(matrix(x), indices({2, 0}, {2}), 1); },
     {2, 0, 5, 3}},
    {"TakeAt",
     [](XlaRunner& x) {
       return take_at(matrix(x), indices({1, 0, 0, 2}, {2, 2}));
     },
     {3, 2}},
    {"PutAtAddsRepeatedIndices",
     [](XlaRunner& x) {
       return put_at(
           Scatter::add,
           row(x),
           indices({1, 1, 3}, {3, 1}),
           constant(10, f32, {3}));
     },
     {0, 21, 2, 13}},
    {"PutAtSets",
     [](XlaRunner& x) {
       return put_at(
           Scatter::set,
           matrix(x),
           indices({1}, {1, 1}),
           constant(8, f32, {1, 3}));
     },
     {0, 1, 2, 8, 8, 8}},
};

INSTANTIATE_TEST_SUITE_P(
    All, XlaOperation, testing::ValuesIn(kCases), [](const auto& parameter) {
      return parameter.param.name;
    });

TEST(XlaRandomBits, DependOnSeedAndOffset) {
  XlaRunner xla(1);
  const auto bits = [&](std::uint64_t seed, std::uint64_t offset) {
    const Value random = random_bits(
        scalar_u64(seed), scalar_u64(offset), ElementType::u32, {8});
    return xla.values(convert(random, f32));
  };

  EXPECT_EQ(bits(1, 2), bits(1, 2));
  EXPECT_NE(bits(1, 2), bits(1, 3));
  EXPECT_NE(bits(1, 2), bits(2, 2));
  EXPECT_EQ(xla.runner.counts().compiled, 1);
}

TEST(XlaBuild, NamesShapesThatDoNotFit) {
  EXPECT_EQ(
      message_of<ArgumentError>([] {
        binary(Op::add, constant(0, f32, {2, 3}), constant(0, f32, {4, 3}));
      }),
      "broadcast: the shapes [2, 3] and [4, 3] do not match");
}

TEST(XlaBuild, ReleasesLongChainsWithoutRecursion) {
  Value x = constant(0, f32, {1});
  for (int i = 0; i < 1'000'000; ++i) {
    x = unary(Op::negate, x);
  }

  x.reset();
}

}  // namespace
}  // namespace accelerate::xla
