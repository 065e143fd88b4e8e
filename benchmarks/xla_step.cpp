// SPDX-License-Identifier: Apache-2.0
// A training step of BERT for classification (fp32, AdamW) on the XLA device
// with the CPU plugin: what the lazy trace costs, compared with the same loop
// on meta tensors, and the whole step, compared with the eager CPU path.
//
//     build/bin/benchmarks/xla_step LAYERS HIDDEN HEADS BATCH LENGTH STEPS
//
// Times are CPU times of the process, because other programs change the elapsed
// time. The loops take turns, so that all of them run in the same conditions.
#include <array>
#include <ctime>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include <ATen/ExpandUtils.h>
#include <ATen/Parallel.h>
#include <torch/library.h>
#include <torch/optim.h>
#include <torch/utils.h>

#include "support/arguments.h"
#include "support/report.h"
#include "transformers/transformers.h"
#include "xla/device/operators.h"
#include "xla/device/tracer.h"

namespace accelerate::benchmarks {
namespace {

struct Sizes {
  std::int64_t layers = 2;
  std::int64_t hidden = 128;
  std::int64_t heads = 2;
  std::int64_t batch = 8;
  std::int64_t length = 64;
  std::int64_t steps = 20;
};

Sizes parse_sizes(char** argv) {
  Sizes sizes;
  std::int64_t* const fields[] = {
      &sizes.layers,
      &sizes.hidden,
      &sizes.heads,
      &sizes.batch,
      &sizes.length,
      &sizes.steps};
  for (std::size_t i = 0; i < std::size(fields); ++i) {
    *fields[i] = std::stoll(argv[i + 1]);
  }
  return sizes;
}

// Meta kernels that LibTorch has only in Python.
at::Tensor index_select(
    const at::Tensor& self, std::int64_t dim, const at::Tensor& index) {
  std::vector<std::int64_t> sizes = self.sizes().vec();
  sizes[static_cast<std::size_t>(dim)] = index.numel();
  return self.new_empty(sizes);
}

at::Tensor where(
    const at::Tensor& condition, const at::Tensor& a, const at::Tensor& b) {
  return (a.dim() > 0 ? a : b)
      .new_empty(at::infer_size(
          condition.sizes(), at::infer_size(a.sizes(), b.sizes())));
}

at::Tensor& where_out(
    const at::Tensor& /*condition*/,
    const at::Tensor& /*a*/,
    const at::Tensor& /*b*/,
    at::Tensor& out) {
  return out;
}

at::Tensor embedding_gradient(
    const at::Tensor& gradient,
    const at::Tensor& /*indices*/,
    std::int64_t rows,
    std::int64_t /*padding*/,
    bool /*scale*/) {
  return gradient.new_empty({rows, gradient.size(-1)});
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm(
    const at::Tensor& input,
    at::IntArrayRef /*shape*/,
    const std::optional<at::Tensor>& /*weight*/,
    const std::optional<at::Tensor>& /*bias*/,
    double /*epsilon*/) {
  std::vector<std::int64_t> rows = input.sizes().vec();
  rows.back() = 1;
  return {at::empty_like(input), input.new_empty(rows), input.new_empty(rows)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_gradient(
    const at::Tensor& /*gradient*/,
    const at::Tensor& input,
    at::IntArrayRef shape,
    const at::Tensor& /*mean*/,
    const at::Tensor& /*inverse*/,
    const std::optional<at::Tensor>& /*weight*/,
    const std::optional<at::Tensor>& /*bias*/,
    std::array<bool, 3> /*wanted*/) {
  return {
      at::empty_like(input), input.new_empty(shape), input.new_empty(shape)};
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("index_select", &index_select);
  m.impl("where.self", &where);
  m.impl("where.self_out", &where_out);
  m.impl("embedding_dense_backward", &embedding_gradient);
  m.impl("native_layer_norm", &layer_norm);
  m.impl("native_layer_norm_backward", &layer_norm_gradient);
}

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_nsec) * 1e-9;
}

double seconds_in(const std::function<void()>& body) {
  const double start = cpu_seconds();
  body();
  return cpu_seconds() - start;
}

// `Module::to` cannot move parameters to the meta device.
void move(transformers::PreTrainedModel& model, c10::Device device) {
  if (!device.is_meta()) {
    model.to(device);
    return;
  }
  for (const at::Tensor& parameter : model.parameters()) {
    const at::Tensor meta = parameter.detach().to(device);
    parameter.unsafeGetTensorImpl()->shallow_copy_from(meta.getIntrusivePtr());
  }
}

class Loop {
 public:
  Loop(const Sizes& sizes, c10::Device device)
      : model_(transformers::AutoModelForSequenceClassification::from_config(
            transformers::BertConfig{
                .hidden_size = sizes.hidden,
                .num_hidden_layers = sizes.layers,
                .num_attention_heads = sizes.heads,
                .intermediate_size = 4 * sizes.hidden,
                .hidden_dropout_prob = 0,
                .attention_probs_dropout_prob = 0})),
        batch_{
            {"input_ids",
             at::full({sizes.batch, sizes.length}, 7, at::kLong).to(device)},
            {"labels", at::ones({sizes.batch}, at::kLong).to(device)}} {
    move(*model_, device);
    model_->train();
    optimizer_ = std::make_unique<torch::optim::AdamW>(
        model_->parameters(), torch::optim::AdamWOptions(3e-5));
  }

  void step() {
    model_(batch_).loss.backward();
    optimizer_->step();
    optimizer_->zero_grad();
  }

 private:
  transformers::AutoModelForSequenceClassification model_;
  TensorMap batch_;
  std::unique_ptr<torch::optim::AdamW> optimizer_;
};

// Starts the recorded program and waits for it.
void run(xla::Tracer& tracer) {
  const auto lock = tracer.lock();
  tracer.run();
  tracer.wait();
}

void measure(const Sizes& sizes, const std::string& plugin, Report report) {
  at::set_num_threads(1);
  xla::register_device();
  xla::Tracer& tracer = xla::open_device({.plugin = plugin, .strict = true});
  Loop eager(sizes, at::kCPU);
  Loop meta(sizes, at::kMeta);
  Loop device(sizes, c10::Device("xla:0"));
  std::vector<double> eager_times;
  std::vector<double> meta_times;
  std::vector<double> record_times;
  std::vector<double> step_times;
  // The first steps make the optimizer's state and compile.
  constexpr std::int64_t kWarmUp = 3;
  for (std::int64_t i = 0; i < sizes.steps + kWarmUp; ++i) {
    const double on_cpu = seconds_in([&] { eager.step(); });
    const double on_meta = seconds_in([&] { meta.step(); });
    const double lookup_before = tracer.runner().counts().lookup_seconds;
    const double recorded = seconds_in([&] { device.step(); });
    const double executed = seconds_in([&] { run(tracer); });
    if (i >= kWarmUp) {
      eager_times.push_back(on_cpu);
      meta_times.push_back(on_meta);
      record_times.push_back(
          recorded + tracer.runner().counts().lookup_seconds - lookup_before);
      step_times.push_back(recorded + executed);
    }
  }
  report.add(
      {"record and look up, compared with meta",
       median(record_times),
       median(meta_times)});
  report.add(
      {"step, compared with eager", median(step_times), median(eager_times)});
  report.measure(
      "operators per step",
      static_cast<double>(tracer.counts().recorded) /
          static_cast<double>(sizes.steps + kWarmUp),
      "");
  report.measure("compilation", tracer.runner().counts().compile_seconds, "s");
}

}  // namespace
}  // namespace accelerate::benchmarks

int main(int argc, char** argv) {
  using namespace accelerate::benchmarks;
  check_arguments(
      argc,
      argv,
      {.text = "xla_step LAYERS HIDDEN HEADS BATCH LENGTH STEPS\n\n"
               "Measures a training step of BERT on the XLA device.",
       .takes_positional = true});
  if (argc != 7) {
    std::cerr << "usage: xla_step LAYERS HIDDEN HEADS BATCH LENGTH STEPS\n";
    return 2;
  }
  measure(parse_sizes(argv), XLA_CPU_PLUGIN, Report(false));
  return 0;
}
