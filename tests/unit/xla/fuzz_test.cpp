// SPDX-License-Identifier: Apache-2.0
// Random programs on xla:0 next to the CPU: values, gradients, types, shapes
// and errors, in strict mode.
//
// ACCELERATE_XLA_FUZZ_PROGRAMS programs from ACCELERATE_XLA_FUZZ_SEED on.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

#include <gtest/gtest.h>

#include "unit/xla/fuzz_program.h"
#include "unit/xla/xla_device.h"

namespace accelerate::xla {
namespace {

std::int64_t number_from(const char* variable, std::int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::atoll(text) : otherwise;
}

// Relative to 1 + the largest element.
double tolerance(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return 1e-9;
    case at::kFloat:
      return 1e-4;
    case at::kBFloat16:
      return 0.05;
    default:
      return 0;
  }
}

double largest(const at::Tensor& x) {
  return x.numel() == 0 ? 0 : x.abs().max().item<double>();
}

// Returns how `device` differs from `cpu`; empty if it does not. A tensor in
// f64 may have been computed from tensors in the program's narrower type. If
// rounding matters to the program (the same program in f64 has other values),
// more is allowed.
std::string difference(
    at::ScalarType program_type,
    const at::Tensor& device,
    const at::Tensor& cpu,
    const at::Tensor& in_f64) {
  if (device.defined() != cpu.defined()) {
    return "defined on one device only";
  }
  if (!cpu.defined()) {
    return "";
  }
  if (device.sizes() != cpu.sizes() ||
      device.scalar_type() != cpu.scalar_type()) {
    return "other type or shape: " + device.toString() + " " +
           c10::str(device.sizes()) + " instead of " + cpu.toString() + " " +
           c10::str(cpu.sizes());
  }
  const at::Tensor a = device.to(at::kDouble);
  const at::Tensor b = cpu.to(at::kDouble);
  const double rounding = largest(b - in_f64.to(at::kDouble));
  const double relative =
      cpu.is_floating_point()
          ? std::max(tolerance(program_type), tolerance(cpu.scalar_type()))
          : 0;
  const double allowed = relative * (1 + largest(b)) + 8 * rounding;
  const double error = largest(a - b);
  if (error <= allowed || std::isnan(largest(b)) || std::isnan(rounding)) {
    return "";
  }
  return c10::str(
      "differs by ", error, ", allowed ", allowed, "\n", device, "\n", cpu);
}

std::string first_difference(
    const FuzzRun& device, const FuzzRun& cpu, const FuzzRun& in_f64) {
  for (std::size_t i = 0; i < cpu.values.size(); ++i) {
    const std::string text =
        difference(cpu.type, device.values[i], cpu.values[i], in_f64.values[i]);
    if (!text.empty()) {
      return c10::str("t", i, " ", text);
    }
  }
  if (!cpu.backward_error.empty() || !in_f64.backward_error.empty()) {
    // The program wrote to a tensor that the backward pass needs. Which tensors
    // an operator keeps depends on the type: in bf16, RMSNorm and attention on
    // the CPU keep copies in fp32, which such a write does not change.
    return "";
  }
  if (!device.backward_error.empty()) {
    return "backward: " + device.backward_error;
  }
  for (std::size_t i = 0; i < cpu.gradients.size(); ++i) {
    const std::string text = difference(
        cpu.type, device.gradients[i], cpu.gradients[i], in_f64.gradients[i]);
    if (!text.empty()) {
      return c10::str("gradient of t", i, " ", text);
    }
  }
  return "";
}

std::string check_program(std::uint64_t seed) {
  const FuzzRun cpu = run_fuzz_program(seed, FuzzPlace::cpu);
  std::string text;
  try {
    const FuzzRun in_f64 = run_fuzz_program(seed, FuzzPlace::cpu_in_f64, &cpu);
    const FuzzRun device = run_fuzz_program(seed, FuzzPlace::xla, &cpu);
    text = first_difference(device, cpu, in_f64);
  } catch (const c10::Error& error) {
    text = error.what_without_backtrace();
  } catch (const std::runtime_error& error) {
    text = error.what();
  }
  return text.empty()
             ? text
             : c10::str("program ", seed, "\n", text_of(cpu), text, "\n");
}

// Programs that compare two values, or take the minimum of two values, that are
// equal except for rounding. Their results may differ. The list depends on how
// programs are generated: empty it when that changes.
constexpr std::array<std::int64_t, 2> kTies{5724, 8912};

TEST(XlaFuzz, EqualsTheCpu) {
  const auto programs = number_from("ACCELERATE_XLA_FUZZ_PROGRAMS", 100);
  const auto first = number_from("ACCELERATE_XLA_FUZZ_SEED", 1);
  test_device();
  for (std::int64_t seed = first; seed < first + programs; ++seed) {
    if (std::find(kTies.begin(), kTies.end(), seed) != kTies.end()) {
      continue;
    }
    const std::string text = check_program(static_cast<std::uint64_t>(seed));
    EXPECT_TRUE(text.empty()) << text;
  }
}

}  // namespace
}  // namespace accelerate::xla
