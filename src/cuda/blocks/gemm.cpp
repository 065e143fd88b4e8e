// SPDX-License-Identifier: Apache-2.0
#include "cuda/blocks/gemm.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include <cublasLt.h>

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>

#include "accelerate/error.h"
#include "base/str_cat.h"

namespace accelerate::cuda {
namespace {

constexpr std::size_t kWorkspaceBytes = 32 << 20;
constexpr int kCandidates = 16;
constexpr int kRounds = 5;  // For products that take nearly the same time.
constexpr std::int64_t kCacheBytes = 64 << 20;  // No less than a device has.

std::atomic<bool> tuning_on{true};

void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw InternalError(
        str_cat("cuBLASLt: ", what, ": ", cublasLtGetStatusString(status)));
  }
}

cudaDataType_t data_type(at::ScalarType type) {
  switch (type) {
    case at::kBFloat16:
      return CUDA_R_16BF;
    case at::kHalf:
      return CUDA_R_16F;
    case at::kFloat:
      return CUDA_R_32F;
    default:
      throw ArgumentError(str_cat("no matrix product of type ", type));
  }
}

// LibTorch's own handle would come with 32 MiB for each thread and stream that
// asks for it. Kept to the end, after CUDA's own teardown too.
cublasLtHandle_t handle() {
  static std::mutex mutex;
  static auto* const all = new std::map<int, cublasLtHandle_t>;
  const std::lock_guard lock(mutex);
  cublasLtHandle_t& one = (*all)[at::cuda::current_device()];
  if (one == nullptr) {
    check(cublasLtCreate(&one), "a handle");
  }
  return one;
}

// A product in cuBLASLt's words. It thinks in columns: our row-major
// out = a b is its out' = b' a', so the factors change places.
struct Problem {
  std::int64_t m, n, k;  // Its rows, columns, depth.
  std::int64_t lda, ldb, ldc, ldd;
  bool transpose_a, transpose_b, has_bias, has_add;
  cudaDataType_t in, out;

  auto key() const {
    return std::make_tuple(
        m,
        n,
        k,
        lda,
        ldb,
        ldc,
        ldd,
        transpose_a,
        transpose_b,
        has_bias,
        has_add,
        in,
        out);
  }
};

struct Pointers {
  const void* a;
  const void* b;
  const void* add;
  const void* bias;
  void* out;
};

template <auto kDestroy>
struct Destroy {
  template <typename T>
  void operator()(T* handle) const {
    kDestroy(handle);
  }
};
using Description = std::
    unique_ptr<cublasLtMatmulDescOpaque_t, Destroy<cublasLtMatmulDescDestroy>>;
using Layout = std::unique_ptr<
    cublasLtMatrixLayoutOpaque_t,
    Destroy<cublasLtMatrixLayoutDestroy>>;
using Preference = std::unique_ptr<
    cublasLtMatmulPreferenceOpaque_t,
    Destroy<cublasLtMatmulPreferenceDestroy>>;

Layout make_layout(
    cudaDataType_t type,
    std::int64_t rows,
    std::int64_t columns,
    std::int64_t ld) {
  cublasLtMatrixLayout_t layout = nullptr;
  check(
      cublasLtMatrixLayoutCreate(
          &layout,
          type,
          static_cast<std::uint64_t>(rows),
          static_cast<std::uint64_t>(columns),
          ld),
      "a matrix layout");
  return Layout(layout);
}

template <typename Value>
void set(
    const Description& d,
    cublasLtMatmulDescAttributes_t name,
    const Value& value) {
  check(
      cublasLtMatmulDescSetAttribute(
          d.get(), name, static_cast<const void*>(&value), sizeof value),
      "an attribute");
}

// Descriptions of one call.
class Call {
 public:
  Call(const Problem& p, const void* bias)
      : a_(p.transpose_a ? make_layout(p.in, p.k, p.m, p.lda)
                         : make_layout(p.in, p.m, p.k, p.lda)),
        b_(p.transpose_b ? make_layout(p.in, p.n, p.k, p.ldb)
                         : make_layout(p.in, p.k, p.n, p.ldb)),
        c_(make_layout(p.out, p.m, p.n, p.ldc)),
        d_(make_layout(p.out, p.m, p.n, p.ldd)),
        beta_(p.has_add ? 1.0F : 0.0F) {
    cublasLtMatmulDesc_t raw = nullptr;
    check(
        cublasLtMatmulDescCreate(&raw, CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "a description");
    description_.reset(raw);
    set(description_,
        CUBLASLT_MATMUL_DESC_TRANSA,
        p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(description_,
        CUBLASLT_MATMUL_DESC_TRANSB,
        p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (p.has_bias) {
      set(description_, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(description_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
      set(description_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, p.out);
    }
  }

  std::vector<cublasLtMatmulAlgo_t> candidates(int most) const {
    cublasLtMatmulPreference_t raw = nullptr;
    check(cublasLtMatmulPreferenceCreate(&raw), "a preference");
    const Preference preference(raw);
    check(
        cublasLtMatmulPreferenceSetAttribute(
            raw,
            CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
            &kWorkspaceBytes,
            sizeof kWorkspaceBytes),
        "a preference");
    std::array<cublasLtMatmulHeuristicResult_t, kCandidates> results;
    int found = 0;
    check(
        cublasLtMatmulAlgoGetHeuristic(
            handle(),
            description_.get(),
            a_.get(),
            b_.get(),
            c_.get(),
            d_.get(),
            raw,
            most,
            results.data(),
            &found),
        "no algorithm for this product");
    std::vector<cublasLtMatmulAlgo_t> algorithms;
    for (int i = 0; i < found; ++i) {
      algorithms.push_back(results[static_cast<std::size_t>(i)].algo);
    }
    return algorithms;
  }

  cublasStatus_t run(
      const Pointers& at,
      const cublasLtMatmulAlgo_t& algorithm,
      void* workspace,
      cudaStream_t stream) const {
    constexpr float kOne = 1.0F;
    return cublasLtMatmul(
        handle(),
        description_.get(),
        &kOne,
        at.a,
        a_.get(),
        at.b,
        b_.get(),
        &beta_,
        at.add,
        c_.get(),
        at.out,
        d_.get(),
        &algorithm,
        workspace,
        kWorkspaceBytes,
        stream);
  }

 private:
  Layout a_, b_, c_, d_;
  float beta_;
  Description description_;
};

double operations_of(const Problem& p) {
  return 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) *
         static_cast<double>(p.k);
}

// Some 30 microseconds: what weights take to come from memory counts.
bool is_short(const Problem& p) {
  return operations_of(p) < 2e10;
}

// Milliseconds that a run takes, of a few; one is enough from a millisecond on.
float time_of(const Problem& problem, const std::function<void()>& run) {
  const int runs = operations_of(problem) < 1e12 ? 3 : 1;
  at::cuda::CUDAEvent begin(cudaEventDefault);
  at::cuda::CUDAEvent end(cudaEventDefault);
  begin.record();
  for (int i = 0; i < runs; ++i) {
    run();
  }
  end.record();
  end.synchronize();
  return begin.elapsed_time(end) / static_cast<float>(runs);
}

// Milliseconds of a run before which the cache was filled with something else,
// as it is when a step comes round to the same weights: the median of several.
float cold_time_of(
    const std::function<void()>& run,
    const at::Tensor& other,
    cudaStream_t stream) {
  constexpr std::size_t kRuns = 9;
  std::array<std::pair<at::cuda::CUDAEvent, at::cuda::CUDAEvent>, kRuns> events;
  for (auto& [begin, end] : events) {
    begin = at::cuda::CUDAEvent(cudaEventDefault);
    end = at::cuda::CUDAEvent(cudaEventDefault);
    (void)cudaMemsetAsync(other.data_ptr(), 0, other.nbytes(), stream);
    begin.record();
    run();
    end.record();
  }
  events.back().second.synchronize();
  std::array<float, kRuns> times{};
  for (std::size_t i = 0; i < kRuns; ++i) {
    times[i] = events[i].first.elapsed_time(events[i].second);
  }
  std::nth_element(times.begin(), times.begin() + kRuns / 2, times.end());
  return times[kRuns / 2];
}

struct Timed {
  cublasLtMatmulAlgo_t algorithm;
  float ms;
};

// Drops those that take longer than `factor` times the least.
void keep_up_to(float factor, std::vector<Timed>& timed) {
  float least = timed.front().ms;
  for (const Timed& one : timed) {
    least = std::min(least, one.ms);
  }
  std::erase_if(
      timed, [&](const Timed& one) { return one.ms > factor * least; });
}

cublasLtMatmulAlgo_t fastest(
    const Problem& problem,
    const Call& call,
    Pointers at,
    const at::Tensor& out,
    void* workspace,
    cudaStream_t stream) {
  // Elsewhere: the true result may be one of the summands.
  const at::Tensor elsewhere = at::empty_like(out);
  at.out = elsewhere.data_ptr();
  at.add = at.add != nullptr ? at.out : nullptr;
  const at::Tensor other =
      is_short(problem)
          ? at::empty({kCacheBytes}, out.options().dtype(at::kByte))
          : at::Tensor();
  const auto time = [&](const cublasLtMatmulAlgo_t& algorithm) {
    const auto run = [&] { call.run(at, algorithm, workspace, stream); };
    return other.defined() ? cold_time_of(run, other, stream)
                           : time_of(problem, run);
  };
  std::vector<Timed> timed;
  for (const auto& algorithm : call.candidates(kCandidates)) {
    if (call.run(at, algorithm, workspace, stream) == CUBLAS_STATUS_SUCCESS) {
      timed.push_back({algorithm, time(algorithm)});
    }
  }
  if (timed.empty()) {
    throw InternalError("cuBLASLt: no algorithm runs for this product");
  }
  if (!is_short(problem)) {
    keep_up_to(1.0F, timed);
    return timed.front().algorithm;
  }
  // What one measurement could not tell apart is measured again, in turns, and
  // what is still the same goes by the library's order: which products a
  // process has should not be chance.
  keep_up_to(1.08F, timed);
  for (int round = 0; round < kRounds; ++round) {
    for (Timed& one : timed) {
      one.ms += time(one.algorithm);
    }
  }
  keep_up_to(1.02F, timed);
  return timed.front().algorithm;
}

// One algorithm for each shape, found once in a process.
class Algorithms {
 public:
  template <typename Find>
  cublasLtMatmulAlgo_t get(const Problem& problem, bool repeats, Find find) {
    const std::lock_guard lock(mutex_);
    const auto key = std::make_tuple(
        static_cast<int>(at::cuda::current_device()), repeats, problem.key());
    const auto found = known_.find(key);
    if (found != known_.end()) {
      return found->second;
    }
    return known_.emplace(key, find()).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<
      std::tuple<int, bool, decltype(std::declval<Problem>().key())>,
      cublasLtMatmulAlgo_t>
      known_;
};

Algorithms& algorithms() {
  static Algorithms all;
  return all;
}

bool is_capturing() {
  return c10::cuda::currentStreamCaptureStatusMayInitCtx() !=
         c10::cuda::CaptureStatus::None;
}

void check_matrix(const char* name, const at::Tensor& matrix) {
  if (matrix.dim() != 2 || (matrix.size(1) > 1 && matrix.stride(1) != 1)) {
    throw ArgumentError(str_cat(
        "a product needs matrices whose rows lie together; ",
        name,
        " has shape ",
        matrix.sizes(),
        " and strides ",
        matrix.strides()));
  }
}

Problem problem_of(
    const at::Tensor& out,
    const at::Tensor& a,
    const at::Tensor& b,
    const GemmOptions& options) {
  check_matrix("a", a);
  check_matrix("b", b);
  check_matrix("out", out);
  const std::int64_t depth = a.size(options.transpose_a ? 0 : 1);
  if (depth != b.size(options.transpose_b ? 1 : 0) ||
      out.size(0) != a.size(options.transpose_a ? 1 : 0) ||
      out.size(1) != b.size(options.transpose_b ? 0 : 1)) {
    throw ArgumentError(str_cat(
        "no product of ", a.sizes(), " and ", b.sizes(), " is ", out.sizes()));
  }
  const auto ld = [](const at::Tensor& t) {
    return std::max<std::int64_t>(t.stride(0), t.size(1));
  };
  return {
      .m = out.size(1),
      .n = out.size(0),
      .k = depth,
      .lda = ld(b),
      .ldb = ld(a),
      .ldc = ld(options.add.defined() ? options.add : out),
      .ldd = ld(out),
      .transpose_a = options.transpose_b,
      .transpose_b = options.transpose_a,
      .has_bias = options.bias.defined(),
      .has_add = options.add.defined(),
      .in = data_type(a.scalar_type()),
      .out = data_type(out.scalar_type())};
}

}  // namespace

void set_gemm_tuning(bool on) {
  tuning_on = on;
}

void gemm_into(
    const at::Tensor& out,
    const at::Tensor& a,
    const at::Tensor& b,
    const GemmOptions& options) {
  const Problem problem = problem_of(out, a, b, options);
  if (out.numel() == 0) {
    return;
  }
  if (problem.k == 0) {
    out.zero_();
    return;
  }
  const void* bias = problem.has_bias ? options.bias.data_ptr() : nullptr;
  const Call call(problem, bias);
  const Pointers at = {
      b.data_ptr(),
      a.data_ptr(),
      problem.has_add ? options.add.data_ptr() : out.data_ptr(),
      bias,
      out.data_ptr()};
  const at::Tensor workspace = at::empty(
      {static_cast<std::int64_t>(kWorkspaceBytes)},
      a.options().dtype(at::kByte));
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream().stream();
  const bool repeats = at::globalContext().deterministicAlgorithms();
  const auto algorithm = algorithms().get(problem, repeats, [&] {
    return tuning_on && !repeats && !is_capturing()
               ? fastest(problem, call, at, out, workspace.data_ptr(), stream)
               : call.candidates(1).at(0);
  });
  check(call.run(at, algorithm, workspace.data_ptr(), stream), "a product");
}

at::Tensor gemm(
    const at::Tensor& a, const at::Tensor& b, const GemmOptions& options) {
  const at::Tensor out = at::empty(
      {a.size(options.transpose_a ? 1 : 0),
       b.size(options.transpose_b ? 0 : 1)},
      a.options());
  gemm_into(out, a, b, options);
  return out;
}

at::Tensor gemm_weight_gradient(const at::Tensor& dy, const at::Tensor& x) {
  const at::Tensor out =
      at::empty({dy.size(1), x.size(1)}, x.options().dtype(at::kFloat));
  gemm_into(out, dy, x, {.transpose_a = true});
  return out;
}

}  // namespace accelerate::cuda
