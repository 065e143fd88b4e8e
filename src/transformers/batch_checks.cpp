// SPDX-License-Identifier: Apache-2.0
#include "transformers/batch_checks.h"

#include <array>
#include <string>
#include <vector>

#include <ATen/ExpandUtils.h>
#include <torch/types.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "device/token_counts.h"

namespace transformers {
namespace {

using accelerate::ArgumentError;
using accelerate::str_cat;

constexpr std::int64_t kIgnoredLabel = -100;

struct NamedTensor {
  const char* name;
  const at::Tensor& tensor;
};

std::array<NamedTensor, 8> tensors_of(const ModelInputs& inputs) {
  return {{
      {"input_ids", inputs.input_ids},
      {"inputs_embeds", inputs.inputs_embeds},
      {"attention_mask", inputs.attention_mask},
      {"token_type_ids", inputs.token_type_ids},
      {"position_ids", inputs.position_ids},
      {"labels", inputs.labels},
      {"start_positions", inputs.start_positions},
      {"end_positions", inputs.end_positions},
  }};
}

// The sizes of a tensor that has a value for each token.
std::vector<std::int64_t> token_sizes(const ModelInputs& inputs) {
  return {inputs.batch(), inputs.tokens()};
}

void check_devices(const ModelInputs& inputs, const BatchLimits& limits) {
  const c10::Device device = limits.words_VD.device();
  for (const auto& [name, tensor] : tensors_of(inputs)) {
    if (tensor.defined() && tensor.device() != device) {
      throw ArgumentError(
          str_cat(
              "`",
              name,
              "` is on ",
              tensor.device().str(),
              ", but the model is on ",
              device.str()),
          "move the batch to the device of the model, or pass the data loader "
          "to `prepare`");
    }
  }
}

void check_sizes(const NamedTensor& checked, at::IntArrayRef expected) {
  if (checked.tensor.sizes() != expected) {
    throw ArgumentError(str_cat(
        "`",
        checked.name,
        "` has shape ",
        checked.tensor.sizes(),
        ", but for this batch it must have shape ",
        expected));
  }
}

// One value per row, in a tensor [B] or [B, 1].
void check_row_sizes(const NamedTensor& checked, std::int64_t rows) {
  if (checked.tensor.dim() != 2 || checked.tensor.size(1) != 1) {
    check_sizes(checked, {rows});
  } else {
    check_sizes(checked, {rows, 1});
  }
}

[[noreturn]] void throw_type(
    const NamedTensor& checked, const char* expected, const char* hint) {
  throw ArgumentError(
      str_cat(
          "`",
          checked.name,
          "` has type ",
          c10::toString(checked.tensor.scalar_type()),
          ", but it must contain ",
          expected),
      hint);
}

void check_integers(const NamedTensor& checked) {
  if (!c10::isIntegralType(
          checked.tensor.scalar_type(), /*includeBool=*/false)) {
    throw_type(checked, "integers", "convert it with `.to(at::kLong)`");
  }
}

void check_ids(const NamedTensor& checked) {
  const auto type = checked.tensor.scalar_type();
  if (type != at::kLong && type != at::kInt) {
    throw_type(
        checked,
        "integers of type Long or Int",
        "convert it with `.to(at::kLong)`");
  }
}

void check_floats(const NamedTensor& checked, const char* hint) {
  if (!checked.tensor.is_floating_point()) {
    throw_type(checked, "floating-point numbers", hint);
  }
}

// The text for the first value that is not in [0, end), with its index.
std::string first_outlier(
    const at::Tensor& tensor, std::int64_t end, bool allows_ignored) {
  auto is_bad = tensor.lt(0).logical_or(tensor.ge(end));
  if (allows_ignored) {
    is_bad = is_bad.logical_and(tensor.ne(kIgnoredLabel));
  }
  const at::Tensor index = is_bad.nonzero()[0];
  at::Tensor value = tensor;
  std::vector<std::string> place;
  for (std::int64_t i = 0; i < index.numel(); ++i) {
    const auto at_i = index[i].item<std::int64_t>();
    value = value[at_i];
    place.push_back(str_cat(at_i));
  }
  return str_cat(
      value.item<std::int64_t>(), " at [", accelerate::join(place, ", "), "]");
}

struct AllowedValues {
  std::int64_t end = 0;      // The values 0 … `end` - 1 are allowed.
  bool has_ignored = false;  // Whether -100 is also allowed.
  std::string reason;
};

// Throws if a known value is not allowed.
void check_range(const NamedTensor& checked, const AllowedValues& allowed) {
  const auto range = accelerate::known_range(checked.tensor);
  if (!range) {
    return;
  }
  const bool is_ignored_bad = range->has_ignored && !allowed.has_ignored;
  const bool is_empty = range->max < range->min;
  if (!is_ignored_bad &&
      (is_empty || (range->min >= 0 && range->max < allowed.end))) {
    return;
  }
  // On a GPU, only the range is known, not the index.
  const std::int64_t value = is_ignored_bad              ? kIgnoredLabel
                             : range->max >= allowed.end ? range->max
                                                         : range->min;
  throw ArgumentError(str_cat(
      "`",
      checked.name,
      "` has the value ",
      checked.tensor.is_cpu()
          ? first_outlier(checked.tensor, allowed.end, allowed.has_ignored)
          : str_cat(value),
      "; ",
      allowed.reason,
      ", so the values must be between 0 and ",
      allowed.end - 1,
      allowed.has_ignored ? ", or -100" : ""));
}

void check_words(const ModelInputs& inputs, const BatchLimits& limits) {
  if (inputs.input_ids.defined()) {
    const NamedTensor ids{"input_ids", inputs.input_ids};
    check_ids(ids);
    const std::int64_t tokens = limits.words_VD.size(0);
    check_range(
        ids,
        {.end = tokens,
         .reason =
             str_cat("the vocabulary of the model has ", tokens, " tokens")});
  } else {
    const NamedTensor embeddings{"inputs_embeds", inputs.inputs_embeds};
    auto sizes = token_sizes(inputs);
    sizes.push_back(limits.words_VD.size(1));
    check_sizes(embeddings, sizes);
  }
  if (inputs.tokens() == 0 && inputs.batch() > 0) {
    throw ArgumentError("the rows of the batch have no tokens");
  }
}

void check_types(const ModelInputs& inputs, const BatchLimits& limits) {
  if (inputs.token_type_ids.defined() && limits.types > 0) {
    const NamedTensor types{"token_type_ids", inputs.token_type_ids};
    check_ids(types);
    check_range(
        types,
        {.end = limits.types,
         .reason = str_cat("the model has ", limits.types, " token types")});
  }
}

// Returns the number of positions that the batch needs. The result is too small
// if it depends on values that are not known.
std::int64_t needed_positions(
    const ModelInputs& inputs, const BatchLimits& limits) {
  const std::int64_t tokens = inputs.tokens();
  if (!limits.skipped_id || tokens <= limits.positions ||
      !inputs.input_ids.defined()) {
    return tokens;
  }
  return inputs.input_ids.is_cpu() && inputs.batch() > 0
             ? inputs.input_ids.ne(*limits.skipped_id)
                   .sum(1)
                   .max()
                   .item<std::int64_t>()
             : 0;
}

void check_positions(const ModelInputs& inputs, const BatchLimits& limits) {
  if (limits.positions == 0) {
    return;
  }
  if (inputs.position_ids.defined()) {
    const NamedTensor positions{"position_ids", inputs.position_ids};
    const std::int64_t rows = limits.positions + limits.first_position;
    check_ids(positions);
    check_range(
        positions,
        {.end = rows,
         .reason = str_cat("the model has ", rows, " position embeddings")});
  } else if (const auto needed = needed_positions(inputs, limits);
             needed > limits.positions) {
    throw ArgumentError(
        str_cat(
            "a row of the batch has ",
            needed,
            " tokens, but the model has positions for at most ",
            limits.positions),
        str_cat(
            "shorten the text: encode with `.truncation = true, .max_length = ",
            limits.positions,
            "`"));
  }
}

AllowedValues classes(const BatchLimits& limits) {
  return {
      .end = limits.classes,
      .has_ignored = true,
      .reason = str_cat("the number of classes is ", limits.classes)};
}

void check_values_per_row(
    const ModelInputs& inputs,
    const BatchLimits& limits,
    const std::string& problem_type) {
  const NamedTensor labels{"labels", inputs.labels};
  if (problem_type == "regression" && limits.classes == 1) {
    check_row_sizes(labels, inputs.batch());
  } else {
    check_sizes(labels, {inputs.batch(), limits.classes});
  }
  // As in Python, regression accepts integer labels if no gradient is needed.
  if (problem_type != "regression" || at::GradMode::is_enabled()) {
    check_floats(
        labels,
        problem_type == "regression"
            ? "convert it with `.to(at::kFloat)`, or set `num_labels` to the "
              "number of classes"
            : "convert it with `.to(at::kFloat)`");
  }
}

void check_row_labels(
    const ModelInputs& inputs,
    const BatchLimits& limits,
    const PretrainedConfig& common) {
  const std::string type = problem_type_of(inputs.labels, common);
  if (type == "single_label_classification") {
    const NamedTensor labels{"labels", inputs.labels};
    check_row_sizes(labels, inputs.batch());
    check_integers(labels);
    check_range(labels, classes(limits));
  } else if (type == "regression" || type == "multi_label_classification") {
    check_values_per_row(inputs, limits, type);
  } else {
    throw ArgumentError(str_cat(
        "`problem_type` is `",
        accelerate::printable(type),
        "`, but must be one of regression, single_label_classification, "
        "multi_label_classification"));
  }
}

void check_labels(
    const ModelInputs& inputs,
    const BatchLimits& limits,
    const PretrainedConfig& common) {
  if (limits.labels == LabelKind::span) {
    for (const NamedTensor& positions :
         {NamedTensor{"start_positions", inputs.start_positions},
          NamedTensor{"end_positions", inputs.end_positions}}) {
      if (positions.tensor.defined()) {
        check_row_sizes(positions, inputs.batch());
        check_integers(positions);
      }
    }
  }
  if (!inputs.labels.defined()) {
    return;
  }
  if (limits.labels == LabelKind::row) {
    check_row_labels(inputs, limits, common);
  } else if (limits.labels == LabelKind::token) {
    const NamedTensor labels{"labels", inputs.labels};
    check_sizes(labels, token_sizes(inputs));
    check_integers(labels);
    check_range(labels, classes(limits));
  }
}

// Repeats a tensor that has one row for all rows of the batch, or one column
// for all tokens.
at::Tensor for_each_token(
    const NamedTensor& checked, const ModelInputs& inputs) {
  const at::Tensor& tensor = checked.tensor;
  const auto sizes = token_sizes(inputs);
  if (!tensor.defined() || tensor.sizes() == sizes) {
    return tensor;
  }
  if (tensor.dim() > 2 || !at::is_expandable_to(tensor.sizes(), sizes)) {
    check_sizes(checked, sizes);
  }
  return tensor.expand(sizes).contiguous();
}

}  // namespace

ModelInputs checked_inputs(
    const ModelInputs& inputs,
    const BatchLimits& limits,
    const PretrainedConfig& common) {
  check_devices(inputs, limits);
  check_words(inputs, limits);
  check_types(inputs, limits);
  check_positions(inputs, limits);
  check_labels(inputs, limits, common);
  ModelInputs result = inputs;
  if (limits.types > 0) {
    result.token_type_ids =
        for_each_token({"token_type_ids", inputs.token_type_ids}, inputs);
  }
  result.position_ids =
      for_each_token({"position_ids", inputs.position_ids}, inputs);
  // A mask with more dimensions has its own rules; see `attention_mask`.
  if (inputs.attention_mask.defined() && inputs.attention_mask.dim() == 2) {
    result.attention_mask =
        for_each_token({"attention_mask", inputs.attention_mask}, inputs);
  }
  return result;
}

std::string problem_type_of(
    const at::Tensor& labels, const PretrainedConfig& common) {
  if (common.problem_type) {
    return *common.problem_type;
  }
  if (common.num_labels == 1) {
    return "regression";
  }
  const bool are_classes =
      labels.scalar_type() == at::kLong || labels.scalar_type() == at::kInt;
  return are_classes ? "single_label_classification"
                     : "multi_label_classification";
}

std::string described(const ModelInputs& inputs) {
  std::vector<std::string> parts;
  for (const auto& [name, tensor] : tensors_of(inputs)) {
    if (tensor.defined()) {
      parts.push_back(str_cat(
          "`",
          name,
          "` ",
          c10::toString(tensor.scalar_type()),
          " ",
          tensor.sizes()));
    }
  }
  return accelerate::join(parts, ", ");
}

}  // namespace transformers
