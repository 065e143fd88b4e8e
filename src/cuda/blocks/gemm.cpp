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
constexpr int kRounds = 5;  // For algorithms of nearly the same speed.
constexpr std::int64_t kCacheBytes = 64 << 20;  // At least the L2 cache size.

std::atomic<bool> tuning_on{true};

void check(cublasStatus_t status, const char* operation) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw InternalError(str_cat(
        "cuBLASLt: ", operation, " failed: ", cublasLtGetStatusString(status)));
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
      throw ArgumentError(str_cat("GEMM does not support the type ", type));
  }
}

// LibTorch's own handle would allocate a 32 MiB workspace for each thread and
// stream that uses it. This handle is never destroyed, because CUDA may shut
// down first.
cublasLtHandle_t handle() {
  static std::mutex mutex;
  static auto* const handles = new std::map<int, cublasLtHandle_t>;
  const std::lock_guard lock(mutex);
  cublasLtHandle_t& device_handle = (*handles)[at::cuda::current_device()];
  if (device_handle == nullptr) {
    check(cublasLtCreate(&device_handle), "creating a handle");
  }
  return device_handle;
}

// A GEMM in cuBLASLt's column-major convention. A row-major out = a b is a
// column-major out' = b' a', so a and b are swapped.
struct Problem {
  std::int64_t m, n, k;  // Rows, columns, depth, as cuBLASLt defines them.
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
      "creating a matrix layout");
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
      "setting an attribute");
}

// The cuBLASLt descriptors of one call.
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
        "creating a matmul descriptor");
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

  std::vector<cublasLtMatmulAlgo_t> candidates(int max_count) const {
    cublasLtMatmulPreference_t raw = nullptr;
    check(cublasLtMatmulPreferenceCreate(&raw), "creating a preference");
    const Preference preference(raw);
    check(
        cublasLtMatmulPreferenceSetAttribute(
            raw,
            CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
            &kWorkspaceBytes,
            sizeof kWorkspaceBytes),
        "setting the workspace limit");
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
            max_count,
            results.data(),
            &found),
        "finding an algorithm for this GEMM");
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

// Whether a GEMM takes at most about 30 microseconds, so that the time to load
// the weights matters.
bool is_short(const Problem& p) {
  return operations_of(p) < 2e10;
}

// Returns the milliseconds per run, averaged over three runs. For GEMMs of more
// than a millisecond, one run is enough.
float warm_time_of(const Problem& problem, const std::function<void()>& run) {
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

// Returns the median of several runs in milliseconds. Flushes the cache before
// each run, because weights are no longer cached when the next training step
// uses them.
float cold_time_of(
    const std::function<void()>& run,
    const at::Tensor& cache_flush,
    cudaStream_t stream) {
  constexpr std::size_t kRuns = 9;
  std::array<std::pair<at::cuda::CUDAEvent, at::cuda::CUDAEvent>, kRuns> events;
  for (auto& [begin, end] : events) {
    begin = at::cuda::CUDAEvent(cudaEventDefault);
    end = at::cuda::CUDAEvent(cudaEventDefault);
    (void)cudaMemsetAsync(
        cache_flush.data_ptr(), 0, cache_flush.nbytes(), stream);
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

struct TimedAlgorithm {
  cublasLtMatmulAlgo_t algorithm;
  float ms;
};

// Drops the algorithms that take more than `factor` times as long as the
// fastest.
void drop_slower_than(float factor, std::vector<TimedAlgorithm>& timed) {
  float fastest_ms = timed.front().ms;
  for (const TimedAlgorithm& candidate : timed) {
    fastest_ms = std::min(fastest_ms, candidate.ms);
  }
  std::erase_if(timed, [&](const TimedAlgorithm& candidate) {
    return candidate.ms > factor * fastest_ms;
  });
}

cublasLtMatmulAlgo_t fastest(
    const Problem& problem,
    const Call& call,
    Pointers at,
    const at::Tensor& out,
    void* workspace,
    cudaStream_t stream) {
  // Writes to scratch memory, because `out` may also be the matrix to add.
  const at::Tensor scratch = at::empty_like(out);
  at.out = scratch.data_ptr();
  at.add = at.add != nullptr ? at.out : nullptr;
  const at::Tensor cache_flush =
      is_short(problem)
          ? at::empty({kCacheBytes}, out.options().dtype(at::kByte))
          : at::Tensor();
  const auto time = [&](const cublasLtMatmulAlgo_t& algorithm) {
    const auto run = [&] { call.run(at, algorithm, workspace, stream); };
    return cache_flush.defined() ? cold_time_of(run, cache_flush, stream)
                                 : warm_time_of(problem, run);
  };
  std::vector<TimedAlgorithm> timed;
  for (const auto& algorithm : call.candidates(kCandidates)) {
    if (call.run(at, algorithm, workspace, stream) == CUBLAS_STATUS_SUCCESS) {
      timed.push_back({algorithm, time(algorithm)});
    }
  }
  if (timed.empty()) {
    throw InternalError("cuBLASLt: no algorithm can run this GEMM");
  }
  if (!is_short(problem)) {
    drop_slower_than(1.0F, timed);
    return timed.front().algorithm;
  }
  // Measures algorithms of similar speed again, in several rounds. If their
  // speed is still similar, uses the first in cuBLASLt's order, so that the
  // choice does not depend on chance.
  drop_slower_than(1.08F, timed);
  for (int round = 0; round < kRounds; ++round) {
    for (TimedAlgorithm& candidate : timed) {
      candidate.ms += time(candidate.algorithm);
    }
  }
  drop_slower_than(1.02F, timed);
  return timed.front().algorithm;
}

// The chosen algorithm for each shape, found once per process.
class Algorithms {
 public:
  template <typename Find>
  cublasLtMatmulAlgo_t get(
      const Problem& problem, bool is_deterministic, Find find) {
    const std::lock_guard lock(mutex_);
    const auto key = std::make_tuple(
        static_cast<int>(at::cuda::current_device()),
        is_deterministic,
        problem.key());
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
  static Algorithms instance;
  return instance;
}

bool is_capturing() {
  return c10::cuda::currentStreamCaptureStatusMayInitCtx() !=
         c10::cuda::CaptureStatus::None;
}

void check_matrix(const char* name, const at::Tensor& matrix) {
  if (matrix.dim() != 2 || (matrix.size(1) > 1 && matrix.stride(1) != 1)) {
    throw ArgumentError(str_cat(
        "a GEMM needs matrices with contiguous rows, but `",
        name,
        "` has shape ",
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
        "the product of ",
        a.sizes(),
        options.transpose_a ? " (transposed)" : "",
        " and ",
        b.sizes(),
        options.transpose_b ? " (transposed)" : "",
        " cannot have shape ",
        out.sizes()));
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
  const bool is_deterministic = at::globalContext().deterministicAlgorithms();
  const auto algorithm = algorithms().get(problem, is_deterministic, [&] {
    return tuning_on && !is_deterministic && !is_capturing()
               ? fastest(problem, call, at, out, workspace.data_ptr(), stream)
               : call.candidates(1).at(0);
  });
  check(call.run(at, algorithm, workspace.data_ptr(), stream), "the GEMM");
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
