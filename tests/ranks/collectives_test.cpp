// SPDX-License-Identifier: Apache-2.0
// The public collectives, with ranks as threads.
#include <algorithm>
#include <limits>

#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include "accelerate/error.h"
#include "accelerate/operations.h"
#include "accelerate/random.h"
#include "device/lazy_tensor.h"
#include "support/message_of.h"
#include "support/run_on_ranks.h"

namespace accelerate {
namespace {

using BackendAndSize = std::tuple<Backend, int>;
using Sizes = std::vector<std::int64_t>;

class PublicCollectives : public testing::TestWithParam<BackendAndSize> {
 protected:
  void run(const std::function<void(Group&)>& body) {
    const auto [backend, size] = GetParam();
    run_on_ranks(size, quick(backend), body);
  }
};

std::string param_name(const testing::TestParamInfo<BackendAndSize>& info) {
  return std::string(name_of(std::get<0>(info.param))) + "_" +
         std::to_string(std::get<1>(info.param));
}

TEST_P(PublicCollectives, GatherUnequalNumbersOfRows) {
  run([](Group& group) {
    // Rank r has r rows, so rank 0 has none.
    const at::Tensor input = at::full({group.rank(), 3}, group.rank());

    const at::Tensor all = gather(input, group);

    std::vector<at::Tensor> expected;
    for (int r = 0; r < group.size(); ++r) {
      expected.push_back(at::full({r, 3}, r));
    }
    EXPECT_TRUE(at::equal(all, at::cat(expected)));
  });
}

TEST_P(PublicCollectives, GatherScalarsAsRows) {
  run([](Group& group) {
    const at::Tensor all = gather(at::full({}, group.rank()), group);

    EXPECT_TRUE(at::equal(all, at::arange(group.size())));
  });
}

TEST_P(PublicCollectives, GatherEmptyTensors) {
  run([](Group& group) {
    EXPECT_EQ(gather(at::empty({0, 4}), group).sizes(), (Sizes{0, 4}));
    EXPECT_EQ(
        gather(at::empty({2, 0}), group).sizes(), (Sizes{2 * group.size(), 0}));
    EXPECT_TRUE(gather(std::vector<at::Tensor>{}, group).empty());
  });
}

TEST_P(PublicCollectives, ReadALazyTensor) {
  run([](Group& group) {
    const auto lazy = [&] {
      return lazy_tensor({2}, at::kFloat, at::kCPU, [rank = group.rank()] {
        return at::full({2}, rank, at::kFloat);
      });
    };
    const at::Tensor expected = at::arange(group.size(), at::kFloat);

    EXPECT_TRUE(
        gather(lazy(), group).view({-1, 2}).select(1, 1).equal(expected));
    EXPECT_EQ(
        reduce(lazy(), {}, group).select(0, 1).item<float>(),
        expected.mean().item<float>());
  });
}

TEST_P(PublicCollectives, GatherEveryTypeAndStride) {
  run([](Group& group) {
    for (const auto type :
         {at::kBool, at::kChar, at::kShort, at::kComplexFloat, at::kHalf}) {
      const at::Tensor wide = at::full({4, 2}, group.rank() % 2, type);
      const at::Tensor all = gather(wide.select(1, 0), group);
      EXPECT_EQ(all.scalar_type(), type);
      EXPECT_TRUE(at::equal(
          all.slice(0, 4 * group.rank(), 4 * group.rank() + 4),
          wide.select(1, 0)));
    }
  });
}

// These views share the memory of other values, and have a flag.
TEST_P(PublicCollectives, GatherReduceAndBroadcastLazyViews) {
  run([](Group& group) {
    const double own = group.rank() + 1;
    const auto negative = [&] { return at::full({2}, own)._neg_view(); };
    const at::Tensor conjugate =
        at::full({1}, c10::complex<double>(0, own))._conj();
    at::Tensor received = negative();

    const at::Tensor gathered = gather(negative(), group);
    const at::Tensor conjugates = gather(conjugate, group);
    const at::Tensor sum =
        reduce(negative(), {.reduction = Reduction::sum}, group);
    broadcast(received, group.size() - 1, group);

    for (int r = 0; r < group.size(); ++r) {
      EXPECT_EQ(gathered[2 * r].item<double>(), -1.0 - r);
      EXPECT_EQ(
          conjugates[r].item<c10::complex<double>>(),
          c10::complex<double>(0, -1.0 - r));
    }
    EXPECT_EQ(sum[0].item<double>(), -0.5 * group.size() * (group.size() + 1));
    EXPECT_EQ(received[1].item<double>(), -group.size());
  });
}

TEST_P(PublicCollectives, GatherWalksNestsAndKeepsAutograd) {
  run([](Group& group) {
    const at::Tensor leaf = at::ones({1}).requires_grad_();
    const std::map<std::string, std::pair<at::Tensor, at::Tensor>> nest = {
        {"a", {leaf.mul(2), at::full({1}, group.rank())}}};

    const auto all = gather(nest, group);

    EXPECT_EQ(all.at("a").first.size(0), group.size());
    EXPECT_TRUE(at::equal(all.at("a").second, at::arange(group.size())));
    EXPECT_TRUE(nest.at("a").first.requires_grad());
  });
}

TEST_P(PublicCollectives, ReduceWithEveryReduction) {
  run([](Group& group) {
    const double n = group.size();
    const at::Tensor input = at::full({3}, group.rank() + 1.0);
    const auto reduce_by = [&](Reduction reduction, double scale = 1.0) {
      return reduce(input, {.reduction = reduction, .scale = scale}, group)[0]
          .item<double>();
    };

    EXPECT_EQ(reduce_by(Reduction::sum), n * (n + 1) / 2);
    EXPECT_EQ(reduce_by(Reduction::mean), (n + 1) / 2);
    EXPECT_EQ(reduce_by(Reduction::max), n);
    EXPECT_EQ(reduce_by(Reduction::min), 1);
    EXPECT_EQ(reduce_by(Reduction::sum, 0.5), n * (n + 1) / 4);
    EXPECT_EQ(input[0].item<double>(), group.rank() + 1.0)
        << "the input changed";
  });
}

TEST_P(PublicCollectives, ReduceEveryType) {
  run([](Group& group) {
    for (const auto type :
         {at::kDouble,
          at::kFloat,
          at::kBFloat16,
          at::kHalf,
          at::kLong,
          at::kInt,
          at::kShort,
          at::kChar,
          at::kByte,
          at::kBool}) {
      // Rank 0 has a 0; small sums are exact in every type.
      const at::Tensor input = at::full({3}, group.rank(), type);
      const auto reduce_by = [&](Reduction reduction) {
        const at::Tensor result =
            reduce(input, {.reduction = reduction}, group);
        EXPECT_EQ(result.scalar_type(), type);
        return result[2].item<double>();
      };
      const int last = group.size() - 1;
      const bool is_bool = type == at::kBool;

      EXPECT_EQ(
          reduce_by(Reduction::sum),
          is_bool ? std::min(last, 1) : last * group.size() / 2)
          << type;
      EXPECT_EQ(reduce_by(Reduction::max), is_bool ? std::min(last, 1) : last)
          << type;
      EXPECT_EQ(reduce_by(Reduction::min), 0) << type;
      EXPECT_EQ(
          input[2].item<double>(), is_bool ? group.rank() > 0 : group.rank())
          << "the input changed: " << type;
    }
  });
}

TEST_P(PublicCollectives, ReduceRejectsComplexTypes) {
  run([](Group& group) {
    EXPECT_EQ(
        message_of<UnsupportedError>([&] {
          static_cast<void>(reduce(
              at::ones({1}, at::kComplexFloat),
              {.reduction = Reduction::sum},
              group));
        }),
        "tensors of type ComplexFloat cannot be reduced");
    group.barrier();
  });
}

TEST_P(PublicCollectives, TheGroupStaysUsableAfterAFailedAllocation) {
  run([](Group& group) {
    constexpr std::int64_t kPetabytes = std::int64_t{1} << 50;
    if (group.size() > 1 && group.backend_name() == "shm") {
      EXPECT_THROW(
          static_cast<void>(group.allocate(kPetabytes, at::empty({0}))),
          OutOfMemoryError);
    }

    EXPECT_EQ(
        reduce(at::ones({1}), {.reduction = Reduction::sum}, group)
            .item<double>(),
        group.size());
  });
}

TEST_P(PublicCollectives, ReduceRejectsTheMeanOfIntegers) {
  run([](Group& group) {
    EXPECT_EQ(
        message_of<ArgumentError>([&] {
          static_cast<void>(reduce(at::ones({1}, at::kInt), {}, group));
        }),
        "reduce: cannot compute the mean of Int tensors");
    group.barrier();
  });
}

TEST_P(PublicCollectives, BroadcastIntoViewsLeavesAndScalars) {
  run([](Group& group) {
    const int last = group.size() - 1;
    const at::Tensor storage = at::full({4, 2}, group.rank());
    const at::Tensor view = storage.select(1, 1);
    const at::Tensor leaf = at::full({2}, 1.0 * group.rank()).requires_grad_();
    const at::Tensor scalar = at::full({}, group.rank());

    broadcast(std::vector{view, leaf, scalar, at::empty({0})}, last, group);

    EXPECT_TRUE(view.eq(last).all().item<bool>());
    EXPECT_TRUE(storage.select(1, 0).eq(group.rank()).all().item<bool>());
    EXPECT_TRUE(leaf.detach().eq(last).all().item<bool>());
    EXPECT_TRUE(leaf.requires_grad() && leaf.is_leaf());
    EXPECT_EQ(scalar.item<int>(), last);
  });
}

TEST_P(PublicCollectives, PadToTheLargestSize) {
  run([](Group& group) {
    const int most = group.size();
    const at::Tensor input = at::ones({2, group.rank() + 1});

    const at::Tensor back =
        pad_across_processes(input, {.dim = 1, .pad_index = -1}, group);
    const at::Tensor front = pad_across_processes(
        input, {.dim = 1, .pad_index = -1, .pad_first = true}, group);

    EXPECT_EQ(back.sizes(), (Sizes{2, most}));
    EXPECT_EQ(back.eq(1).sum().item<int>(), 2 * (group.rank() + 1));
    EXPECT_TRUE(at::equal(front, back.flip(1)));
    const at::Tensor scalar = at::ones({});
    EXPECT_TRUE(at::equal(pad_across_processes(scalar, {}, group), scalar));
  });
}

TEST_P(PublicCollectives, GatherObjectsOfAnyLength) {
  run([](Group& group) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const std::string bytes("\0\xff\n", 3);
    const std::vector<Json> input = {
        Json::object({{"rank", group.rank()}, {"bytes", bytes}}),
        std::string(static_cast<std::size_t>(20'000 * group.rank()), 'x'),
        nan};

    const auto all = gather_object(input, group);

    ASSERT_EQ(all.size(), 3U * static_cast<std::size_t>(group.size()));
    for (std::size_t r = 0; r < all.size() / 3; ++r) {
      EXPECT_EQ(all[3 * r].at("rank").as_integer(), static_cast<int>(r));
      EXPECT_EQ(all[3 * r].at("bytes").as_string(), bytes);
      EXPECT_EQ(all[3 * r + 1].as_string().size(), 20'000 * r);
      EXPECT_TRUE(std::isnan(all[3 * r + 2].as_double()));
    }
    EXPECT_EQ(
        gather_object(
            group.rank() == 0 ? std::vector<Json>{} : std::vector<Json>{1},
            group)
            .size(),
        static_cast<std::size_t>(group.size() - 1));
  });
}

TEST_P(PublicCollectives, BroadcastObjects) {
  run([](Group& group) {
    const int last = group.size() - 1;
    std::vector<Json> list = {group.rank(), std::string(10'000, 'y')};

    broadcast_object_list(list, last, group);

    EXPECT_EQ(list[0], Json(last));
    EXPECT_EQ(list[1].as_string().size(), 10'000U);
  });
}

TEST_P(PublicCollectives, SynchronizeRandomNumberGenerators) {
  run([](Group& group) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(
        static_cast<std::uint64_t>(group.rank()));

    synchronize_rng_states({RngType::generator}, generator, group);

    const at::Tensor drawn = at::rand({8}, generator);
    at::Tensor first = drawn.clone();
    group.broadcast({first});
    EXPECT_TRUE(at::equal(drawn, first));
  });
}

INSTANTIATE_TEST_SUITE_P(
    Collectives,
    PublicCollectives,
    testing::Combine(
        testing::Values(Backend::shm, Backend::gloo, Backend::fake),
        testing::Values(1, 2, 3, 5)),
    param_name);

}  // namespace
}  // namespace accelerate
