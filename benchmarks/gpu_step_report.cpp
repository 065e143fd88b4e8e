// SPDX-License-Identifier: Apache-2.0
#include "gpu_step_report.h"

#include <cstdio>
#include <map>

namespace {

// Limits: at most this many milliseconds, or at least this many tokens per
// second. 0 means that there is no goal.
struct Goals {
  double required = 0.0;
  double stretch = 0.0;
  bool are_tokens = false;
  const char* text = "";
};

Goals goals_of(const std::string& work) {
  static const std::map<std::string, Goals> all = {
      {"bert B8 T128", {2.9, 2.5}},
      {"bert B32 T128", {6.2, 5.3}},
      {"bert B256 T128", {39, 34}},
      {"bert B32 lengths 20-128", {5.9, 3.7}},
      {"gpt2 B32 T1024", {500e3, 550e3, true}},
      {"gpt2 dropout 0 B32 T1024", {530e3, 580e3, true}},
      {"gpt2-350M dropout 0 B16 T1024", {225e3, 245e3, true}},
      {"llama B8 T2048", {67e3, 72e3, true}},
      {"module B8 T128", {0, 0, false, "1/2, 1/4 of PyTorch's time"}}};
  const auto found = all.find(work);
  return found == all.end() ? Goals{} : found->second;
}

std::string number(const char* form, double value) {
  char text[32];
  std::snprintf(text, sizeof text, form, value);
  return text;
}

std::string goal_text(const Goals& goals) {
  if (goals.required == 0.0) {
    return goals.text;
  }
  return goals.are_tokens ? number(">= %.0f k", goals.required / 1e3) +
                                number(", %.0f k", goals.stretch / 1e3)
                          : number("<= %.1f", goals.required) +
                                number(", %.1f", goals.stretch);
}

const char* goal_status(const Goals& goals, double ms, double rate) {
  if (goals.required == 0.0) {
    return "";
  }
  const auto is_met = [&](double goal) {
    return goals.are_tokens ? rate >= goal : ms <= goal;
  };
  return is_met(goals.stretch)    ? "stretch"
         : is_met(goals.required) ? "yes"
                                  : "no";
}

}  // namespace

void StepReport::add(const StepResult& result) {
  const double rate = static_cast<double>(result.units) / result.ms * 1e3;
  if (json_) {
    std::printf(
        "{\"work\": \"%s\", \"mode\": \"%s\", \"ms\": %.3f, "
        "\"units_per_s\": %.0f, \"warm_up_s\": %.2f, \"peak_gb\": %.2f, "
        "\"loss\": %.6f}\n",
        result.work.c_str(),
        result.mode.c_str(),
        result.ms,
        rate,
        result.warm_up_s,
        result.peak_gb,
        result.loss);
    std::fflush(stdout);
    return;
  }
  if (!has_header_) {
    has_header_ = true;
    std::printf(
        "%-30s %-6s %9s %10s  %-28s %-6s %9s %9s %8s\n",
        "work",
        "mode",
        "ms/step",
        "units/s",
        "goal, stretch goal",
        "met",
        "peak, GB",
        "warm-up",
        "loss");
  }
  const Goals goals = goals_of(result.work);
  std::printf(
      "%-30s %-6s %9.3f %10.0f  %-28s %-6s %9.2f %7.2f s %8.4f\n",
      result.work.c_str(),
      result.mode.c_str(),
      result.ms,
      rate,
      goal_text(goals).c_str(),
      goal_status(goals, result.ms, rate),
      result.peak_gb,
      result.warm_up_s,
      result.loss);
  std::fflush(stdout);
}
