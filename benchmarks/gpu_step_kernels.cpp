// SPDX-License-Identifier: Apache-2.0
// The memory throughput of this library's kernels: the bytes that a kernel must
// move, divided by its time, compared with a plain copy.
//
//     build/bin/benchmarks/gpu_step_kernels
#include <algorithm>
#include <cstdio>
#include <functional>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>

#include "cuda/kernels/activation.h"
#include "cuda/kernels/adamw.h"
#include "cuda/kernels/column_sum.h"
#include "cuda/kernels/cross_entropy.h"
#include "cuda/kernels/embedding.h"
#include "cuda/kernels/heads.h"
#include "cuda/kernels/norm.h"
#include "support/arguments.h"

namespace {

using namespace accelerate::cuda::kernels;

cudaStream_t stream() {
  return at::cuda::getCurrentCUDAStream().stream();
}

at::Tensor random(at::IntArrayRef sizes, at::ScalarType type = at::kBFloat16) {
  return at::randn(sizes, at::TensorOptions(at::kFloat).device(at::kCUDA))
      .to(type);
}

float* floats(const at::Tensor& t) {
  return t.data_ptr<float>();
}

double median_ms(const std::function<void()>& work) {
  std::vector<float> times;
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  for (int i = 0; i < 12; ++i) {
    cudaEventRecord(begin, stream());
    work();
    cudaEventRecord(end, stream());
    cudaEventSynchronize(end);
    float ms = 0.0F;
    cudaEventElapsedTime(&ms, begin, end);
    if (i >= 2) {
      times.push_back(ms);
    }
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void report(const char* name, double bytes, const std::function<void()>& work) {
  const double ms = median_ms(work);
  std::printf("%-44s %8.1f us  %6.2f TB/s\n", name, ms * 1e3, bytes / ms / 1e9);
}

void time_norms(
    std::int64_t rows, std::int64_t width, bool is_rms, float rate) {
  const auto x = random({rows, width}), residual = random({rows, width});
  const auto sum = at::empty_like(x), y = at::empty_like(x);
  const auto dx = at::empty_like(x);
  const auto weight = random({width}, at::kFloat),
             shift = random({width}, at::kFloat);
  const auto mean = random({rows}, at::kFloat),
             rstd = random({rows}, at::kFloat);
  const auto sums = random({3, width}, at::kFloat);
  const auto workspace = random({norm_workspace(rows, width)}, at::kFloat);
  const Dropout dropout = {rate, {nullptr, nullptr, 1, 2}};
  const double matrix = static_cast<double>(rows * width) * 2;
  std::printf(
      "-- %ld x %ld %s, dropout %.1f\n",
      rows,
      width,
      is_rms ? "rms" : "layer",
      rate);
  report("norm forward, residual", matrix * 4, [&] {
    norm_forward(
        {.rows = rows,
         .width = width,
         .x = x.data_ptr(),
         .bias = is_rms ? nullptr : floats(weight),
         .residual = residual.data_ptr(),
         .dropout = dropout,
         .weight = floats(weight),
         .shift = is_rms ? nullptr : floats(shift),
         .is_rms = is_rms,
         .sum = sum.data_ptr(),
         .y = y.data_ptr(),
         .mean = is_rms ? nullptr : floats(mean),
         .rstd = floats(rstd)},
        stream());
  });
  report("norm backward", matrix * (rate > 0 ? 4 : 3), [&] {
    const NormBackward work = {
        .rows = rows,
        .width = width,
        .dy = y.data_ptr(),
        .sum = sum.data_ptr(),
        .weight = floats(weight),
        .mean = is_rms ? nullptr : floats(mean),
        .rstd = floats(rstd),
        .dropout = dropout,
        .d_sum = residual.data_ptr(),
        .dx = rate > 0 ? dx.data_ptr() : nullptr,
        .d_weight = floats(sums),
        .d_shift = is_rms ? nullptr : floats(sums) + width,
        .d_bias = is_rms ? nullptr : floats(sums) + 2 * width,
        .workspace = floats(workspace)};
    norm_backward(work, stream());
    norm_backward_sums(work, stream());
  });
  const auto x32 = weight.to(at::kBFloat16), b32 = shift.to(at::kBFloat16);
  const auto result = at::native_layer_norm(x, {width}, x32, b32, 1e-5);
  report("  LibTorch's layer norm backward", matrix * 3, [&] {
    at::native_layer_norm_backward(
        y,
        x,
        {width},
        std::get<1>(result),
        std::get<2>(result),
        x32,
        b32,
        {true, true, true});
  });
}

void time_layer_kernels(std::int64_t rows) {
  const std::int64_t inner = 3072;
  const double matrix = static_cast<double>(rows * inner) * 2;
  const auto x = random({rows, inner}), y = random({rows, inner});
  const auto bias = random({inner}, at::kFloat),
             d_bias = random({inner}, at::kFloat);
  const auto workspace =
      random({column_sum_workspace(rows, inner)}, at::kFloat);
  std::printf("-- %ld rows\n", rows);
  for (const auto activation : {Activation::gelu_erf, Activation::gelu_tanh}) {
    const BiasActivation work = {
        .activation = activation,
        .rows = rows,
        .width = inner,
        .x = x.data_ptr(),
        .bias = floats(bias)};
    report("bias + gelu forward", matrix * 2, [&] {
      bias_activation_forward(work, y.data_ptr(), stream());
    });
    report("bias + gelu backward, with bias gradient", matrix * 3, [&] {
      bias_activation_backward(
          work, y.data_ptr(), y.data_ptr(), floats(workspace), stream());
      finish_column_sum(
          rows, inner, floats(workspace), floats(d_bias), stream());
    });
  }
  report("column sum", matrix, [&] {
    column_sum(
        Type::bf16,
        x.data_ptr(),
        rows,
        inner,
        inner,
        floats(d_bias),
        floats(workspace),
        stream());
  });
  const auto half = y.view({-1}).slice(0, 0, rows * inner / 2);
  report("swiglu forward", matrix * 1.5, [&] {
    swiglu_forward(
        Type::bf16, x.data_ptr(), half.data_ptr(), rows, inner / 2, stream());
  });
  const auto d = at::empty_like(x);
  report("swiglu backward", matrix * 2.5, [&] {
    swiglu_backward(
        Type::bf16,
        x.data_ptr(),
        half.data_ptr(),
        d.data_ptr(),
        rows,
        inner / 2,
        stream());
  });
  const HeadSizes sizes = {Type::bf16, rows / 128, 128, 16, 16, 64};
  const auto cos = random({128, 64}, at::kFloat);
  report("rotary embedding", matrix * 4 / 3, [&] {
    apply_rotary_embedding(
        sizes, d.data_ptr(), {floats(cos), floats(cos), 0}, stream());
  });
  const HeadsView view = {x.data_ptr(), 128 * 1024, 64, 1024};
  report("pack gradients", matrix * 2, [&] {
    pack_gradients(sizes, view, view, view, {}, d.data_ptr(), stream());
  });
}

void time_tables() {
  const std::int64_t tokens = 32768, width = 768, rows = 50257;
  const auto ids = at::randint(
      rows, {tokens}, at::TensorOptions(at::kLong).device(at::kCUDA));
  const auto dy = random({tokens, width});
  const auto d_table = random({rows, width}, at::kFloat);
  const auto bytes = embedding_workspace_bytes(tokens, rows, width);
  const auto workspace = at::empty(
      {static_cast<std::int64_t>(bytes)},
      at::TensorOptions(at::kByte).device(at::kCUDA));
  const auto time_lookup = [&](const char* name, const at::Tensor& lookup) {
    report(name, static_cast<double>(tokens * width) * 2, [&] {
      embedding_backward(
          {.ids = lookup.data_ptr<std::int64_t>(),
           .dy = dy.data_ptr(),
           .count = tokens,
           .rows = rows,
           .width = width,
           .d_table = floats(d_table),
           .workspace = workspace.data_ptr(),
           .workspace_bytes = bytes},
          stream());
    });
  };
  time_lookup("embedding gradient, 50257 rows", ids);
  time_lookup("embedding gradient, one id", at::zeros_like(ids));
  const std::int64_t stride = 50304, logit_rows = 8192;
  const auto logits = random({logit_rows, stride});
  const auto losses = random({logit_rows}, at::kFloat);
  const auto scale = at::ones({1}, losses.options());
  report(
      "cross entropy, 8192 x 50257",
      static_cast<double>(logit_rows * rows) * 4,
      [&] {
        cross_entropy(
            {.rows = logit_rows,
             .classes = rows,
             .stride = stride,
             .columns = stride,
             .logits = logits.data_ptr(),
             .labels = ids.data_ptr<std::int64_t>(),
             .scale = floats(scale),
             .losses = floats(losses)},
            stream());
      });
}

void time_adamw() {
  // BERT-base: the embedding tables, and 12 layers of small and large tensors.
  std::vector<std::int64_t> sizes = {30522 * 768, 512 * 768, 2 * 768, 768, 768};
  for (int i = 0; i < 12; ++i) {
    for (const std::int64_t size :
         {768 * 768, 768 * 768, 768 * 768, 768 * 768, 768 * 3072, 768 * 3072}) {
      sizes.push_back(size);
      sizes.push_back(768);
    }
  }
  std::vector<at::Tensor> storage;
  std::vector<AdamWTensor> tensors;
  double elements = 0;
  const auto step = at::ones({1}, random({1}, at::kFloat).options());
  for (const std::int64_t size : sizes) {
    for (int i = 0; i < 4; ++i) {
      storage.push_back(random({size}, at::kFloat).abs());
    }
    storage.push_back(random({size}));
    const auto at = [&](std::size_t back) {
      return floats(storage[storage.size() - back]);
    };
    tensors.push_back(
        {at(5),
         at(4),
         at(3),
         at(2),
         floats(step),
         storage.back().data_ptr(),
         size});
    elements += static_cast<double>(size);
  }
  report("adamw, 110 M parameters", elements * 30, [&] {
    adamw(
        tensors.data(),
        static_cast<int>(tensors.size()),
        {.lr = 1e-4},
        stream());
  });
}

}  // namespace

int main(int argc, char** argv) {
  accelerate::benchmarks::check_arguments(
      argc,
      argv,
      {.text = "gpu_step_kernels\n\n"
               "Measures the memory throughput of our kernels."});
  const auto a = random({1 << 28}), b = at::empty_like(a);
  report("copy of 512 MiB", static_cast<double>(a.nbytes()) * 2, [&] {
    b.copy_(a);
  });
  time_norms(32768, 768, false, 0.1F);
  time_norms(32768, 768, false, 0.0F);
  time_norms(16384, 1024, false, 0.0F);
  time_norms(1024, 768, false, 0.1F);
  time_norms(16384, 2048, true, 0.0F);
  time_layer_kernels(32768);
  time_layer_kernels(1024);
  time_tables();
  time_adamw();
  return 0;
}
