// SPDX-License-Identifier: Apache-2.0
#include "transformers/config_fields.h"

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace transformers {

using accelerate::FormatError;
using accelerate::Json;
using accelerate::parse_integer;
using accelerate::printable;
using accelerate::str_cat;

FieldReader::FieldReader(const Json& json, std::string source)
    : rest_(json), source_(std::move(source)) {
  if (!rest_.is_object()) {
    throw FormatError(str_cat(source_, ": not a JSON object"));
  }
}

std::optional<Json> FieldReader::take(
    std::string_view key, std::initializer_list<std::string_view> aliases) {
  std::optional<Json> found;
  if (const Json* value = rest_.find(key)) {
    found = *value;
    rest_.as_object().erase(key);
  }
  for (const std::string_view alias : aliases) {
    if (const Json* value = rest_.find(alias); value != nullptr && !found) {
      found = *value;
      rest_.as_object().erase(alias);
    }
  }
  return found;
}

void FieldReader::check(
    bool is_expected,
    std::string_view key,
    const Json& value,
    std::string_view expected) const {
  if (is_expected) {
    return;
  }
  std::string shown = value.dump({.ensure_ascii = true, .allow_nan = true});
  if (shown.size() > 60) {
    shown = shown.substr(0, 60) + "…";
  }
  throw FormatError(
      str_cat(source_, ": `", key, "` is ", shown, ", not ", expected));
}

void FieldReader::set(
    std::string_view key, std::int64_t& field, const Json& value) const {
  check(value.is_integer(), key, value, "an integer");
  field = value.as_integer();
}

void FieldReader::set(
    std::string_view key, double& field, const Json& value) const {
  check(value.is_number(), key, value, "a number");
  field = value.as_double();
}

void FieldReader::set(
    std::string_view key, bool& field, const Json& value) const {
  check(value.is_bool(), key, value, "true or false");
  field = value.as_bool();
}

void FieldReader::set(
    std::string_view key, std::string& field, const Json& value) const {
  check(value.is_string(), key, value, "a string");
  field = value.as_string();
}

void FieldChecker::operator()(std::string_view key, double value) const {
  const bool is_rate =
      key.find("dropout") != std::string_view::npos || key.ends_with("pdrop");
  if (is_rate && !(value >= 0 && value <= 1)) {
    throw accelerate::ArgumentError(str_cat(
        "`", key, "` is ", value, "; a dropout rate must be between 0 and 1"));
  }
}

void FieldWriter::add(const Json& others) {
  for (const auto& [key, value] : others.as_object()) {
    members_.try_emplace(key, value);
  }
}

Json FieldWriter::json() const {
  Json object = Json::object();
  for (const auto& [key, value] : members_) {
    object[key] = value;
  }
  return object;
}

namespace {

constexpr std::int64_t kMaxLabels = 1'000'000;

void read_labels(FieldReader& reader, PretrainedConfig& common) {
  reader("num_labels", common.num_labels);
  const std::optional<Json> names = reader.take("id2label");
  reader.take("label2id");  // The inverse of `id2label`.
  if (!names || names->is_null()) {
    return;
  }
  common.id2label.clear();
  const auto fail = [&](const std::string& message) {
    throw FormatError(str_cat(reader.source(), ": `id2label`", message));
  };
  if (!names->is_object()) {
    fail(" is not an object");
  }
  for (const auto& [key, value] : names->as_object()) {
    const auto id = parse_integer(key);
    if (!id || *id < 0) {
      fail(str_cat(": `", printable(key), "` is not a label number"));
    }
    if (!value.is_string()) {
      fail(str_cat(": the value of `", printable(key), "` is not a string"));
    }
    common.id2label[*id] = value.as_string();
  }
  common.num_labels = static_cast<std::int64_t>(common.id2label.size());
}

// Writing the config creates a name for each label, so their number is limited.
void check_labels(const FieldReader& reader, const PretrainedConfig& common) {
  if (common.num_labels < 0 || common.num_labels > kMaxLabels) {
    throw FormatError(str_cat(
        reader.source(),
        ": `num_labels` is ",
        common.num_labels,
        ", but must be between 0 and ",
        kMaxLabels));
  }
}

// `null` is false, as in Python.
void read_switch(FieldReader& reader, std::string_view key, bool& field) {
  std::optional<bool> value;
  reader(key, value);
  field = value.value_or(false);
}

// Returns the label names of the config, or the default names.
std::map<std::int64_t, std::string> label_names(
    const PretrainedConfig& common) {
  if (!common.id2label.empty()) {
    return common.id2label;
  }
  std::map<std::int64_t, std::string> names;
  for (std::int64_t id = 0; id < common.num_labels; ++id) {
    names[id] = str_cat("LABEL_", id);
  }
  return names;
}

template <typename Rope, typename Visitor>
void visit_rope(Rope& rope, Visitor visitor) {
  visitor("factor", rope.factor);
  visitor(
      "original_max_position_embeddings",
      rope.original_max_position_embeddings);
  visitor("attention_factor", rope.attention_factor);
  visitor("beta_fast", rope.beta_fast);
  visitor("beta_slow", rope.beta_slow);
  visitor("mscale", rope.mscale);
  visitor("mscale_all_dim", rope.mscale_all_dim);
  visitor("truncate", rope.truncate);
  visitor("short_factor", rope.short_factor);
  visitor("long_factor", rope.long_factor);
  visitor("low_freq_factor", rope.low_freq_factor);
  visitor("high_freq_factor", rope.high_freq_factor);
}

}  // namespace

void read_common(FieldReader& reader, PretrainedConfig& common) {
  read_labels(reader, common);
  check_labels(reader, common);
  reader("problem_type", common.problem_type);
  reader("dtype", common.dtype, {"torch_dtype"});
  read_switch(reader, "output_hidden_states", common.output_hidden_states);
  read_switch(reader, "output_attentions", common.output_attentions);
  if (auto classes = reader.take("architectures");
      classes && classes->is_array()) {
    FieldReader list(
        Json::object({{"architectures", *classes}}), reader.source());
    list("architectures", common.architectures);
  }
  common.extra = reader.rest();
}

void write_common(FieldWriter& writer, const PretrainedConfig& common) {
  if (common.num_labels != 2 || !common.id2label.empty()) {
    Json names = Json::object();
    Json ids = Json::object();
    for (const auto& [id, name] : label_names(common)) {
      names[str_cat(id)] = name;
      ids[name] = id;
    }
    writer("id2label", names);
    writer("label2id", ids);
  }
  writer.optional("problem_type", common.problem_type);
  writer.optional("dtype", common.dtype);
  if (common.output_hidden_states) {
    writer("output_hidden_states", true);
  }
  if (common.output_attentions) {
    writer("output_attentions", true);
  }
  if (!common.architectures.empty()) {
    writer("architectures", common.architectures);
  }
  writer.add(common.extra);
}

namespace {

bool is_unset(const std::optional<Json>& value) {
  return !value || value->is_null() ||
         (value->is_object() && value->size() == 0);
}

// Returns the `partial_rotary_factor`, if there is one.
std::optional<Json> read_inner_fields(
    FieldReader& fields, RopeParameters& rope) {
  fields("rope_type", rope.rope_type, {"type"});
  fields.take("type");
  fields("rope_theta", rope.rope_theta);
  const Json* truncate = fields.rest().find("truncate");
  const bool is_null = truncate != nullptr && truncate->is_null();
  visit_rope(
      rope, [&](std::string_view key, auto& field) { fields(key, field); });
  if (is_null) {
    // As in Python, where the default for a missing key is true.
    rope.truncate = false;
  }
  fields.take("finetuned");  // Has no effect in Python either.
  auto partial = fields.take("partial_rotary_factor");
  for (const auto& [key, value] : fields.rest().as_object()) {
    throw accelerate::UnsupportedError(
        str_cat(fields.source(), ": unknown key `", printable(key), "`"));
  }
  return partial;
}

// In Python, Llama ignores the factor with the type "default", and fails with
// the other types.
void check_partial_factor(
    const FieldReader& reader, const RopeParameters& rope, const Json& factor) {
  const bool is_one = factor.is_number() && factor.as_double() == 1;
  if (rope.rope_type != "default" && !is_one && !factor.is_null()) {
    throw accelerate::UnsupportedError(str_cat(
        reader.source(),
        ": `partial_rotary_factor` is ",
        factor.dump({.ensure_ascii = true, .allow_nan = true}),
        "; for `rope_type` `",
        printable(rope.rope_type),
        "`, only 1 is supported"));
  }
}

}  // namespace

void read_fields(FieldReader& reader, RopeParameters& rope) {
  // Older files have `rope_scaling` with a `type`, and a separate `rope_theta`.
  // If a file has both, Python uses `rope_scaling`.
  reader("rope_theta", rope.rope_theta);
  auto inner = reader.take("rope_scaling");
  auto parameters = reader.take("rope_parameters");
  if (is_unset(inner)) {
    inner = std::move(parameters);
  }
  std::optional<Json> partial;
  if (inner && !inner->is_null()) {
    FieldReader fields(*inner, reader.source() + ": rope_parameters");
    partial = read_inner_fields(fields, rope);
  }
  if (const Json* outer = reader.rest().find("partial_rotary_factor");
      outer != nullptr && !partial) {
    partial = *outer;
  }
  check_partial_factor(reader, rope, partial.value_or(Json()));
  constexpr std::string_view kContext = "original_max_position_embeddings";
  const bool has_context = rope.rope_type == "llama3" ||
                           rope.rope_type == "yarn" ||
                           rope.rope_type == "longrope";
  if (has_context && reader.rest().contains(kContext)) {
    // Overrides the value in `rope_parameters`, as in Python.
    reader(kContext, rope.original_max_position_embeddings.emplace());
  }
}

Json to_json(const RopeParameters& rope) {
  FieldWriter writer;
  writer("rope_type", rope.rope_type);
  writer("rope_theta", rope.rope_theta);
  visit_rope(rope, [&](std::string_view key, const auto& field) {
    writer.optional(key, field);
  });
  return writer.json();
}

}  // namespace transformers
