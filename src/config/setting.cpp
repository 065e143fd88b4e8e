// SPDX-License-Identifier: Apache-2.0
#include "config/setting.h"

#include <algorithm>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "config/environment.h"

namespace accelerate {
namespace {

std::string underscored(std::string_view flag) {
  return replace_all(std::string(flag), "-", "_");
}

[[noreturn]] void refuse(
    const Setting& setting,
    const std::string& text,
    const std::string& subject) {
  // `fp8` is valid in Hugging Face Accelerate, so it is not treated as a typo.
  if (setting.name == "mixed_precision" && lower(text) == "fp8") {
    throw ConfigError(
        str_cat(subject, " is `fp8`, which this version does not support"),
        "use bf16");
  }
  const char* list = setting.type == SettingType::choice ? "one of " : "";
  std::string hint;
  if (setting.type == SettingType::choice) {
    hint = did_you_mean(text, setting.choices);
  }
  throw ConfigError(
      str_cat(
          subject,
          " is `",
          printable(text),
          "`, but must be ",
          list,
          allowed_values(setting)),
      hint);
}

Json parse_choice(
    const Setting& setting,
    const std::string& text,
    const std::string& subject) {
  for (const std::string& choice : setting.choices) {
    if (lower(choice) == lower(text)) {
      return choice;
    }
  }
  refuse(setting, text, subject);
}

Json parse_number(
    const Setting& setting,
    const std::string& text,
    const std::string& subject) {
  const auto number = parse_integer(text);
  if (!number || *number < setting.minimum || *number > setting.maximum) {
    refuse(setting, text, subject);
  }
  return *number;
}

Json parse_real(
    const Setting& setting,
    const std::string& text,
    const std::string& subject) {
  const auto number = parse_double(text);
  if (!number || *number < static_cast<double>(setting.minimum) ||
      *number > static_cast<double>(setting.maximum)) {
    refuse(setting, text, subject);
  }
  return *number;
}

}  // namespace

const Setting* find_setting(std::string_view name) {
  const auto& all = all_settings();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Setting& setting) {
        return setting.name == name;
      });
  return found == all.end() ? nullptr : &*found;
}

const Setting* find_setting_by_flag(std::string_view flag) {
  const std::string name = underscored(flag);
  const auto& all = all_settings();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Setting& setting) {
        return !setting.flag.empty() && setting.flag == name;
      });
  return found == all.end() ? nullptr : &*found;
}

const PythonSetting* find_python_flag(std::string_view flag) {
  const std::string name = underscored(flag);
  const auto& all = python_settings();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const PythonSetting& setting) {
        return setting.is_flag && setting.name == name;
      });
  return found == all.end() ? nullptr : &*found;
}

const PythonSetting* find_python_key(
    std::string_view section, std::string_view key) {
  const auto& all = python_settings();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const PythonSetting& setting) {
        return setting.is_key && setting.name == key &&
               setting.section == section;
      });
  return found == all.end() ? nullptr : &*found;
}

std::string title_of(SettingGroup group) {
  switch (group) {
    case SettingGroup::general:
      return "General";
    case SettingGroup::hardware:
      return "Hardware";
    case SettingGroup::resources:
      return "Resources";
    case SettingGroup::machines:
      return "Several machines";
    case SettingGroup::output:
      return "Output";
    case SettingGroup::failures:
      return "Failures and restarts";
    case SettingGroup::build:
      return "Single-file programs";
  }
  return "";
}

std::string allowed_values(const Setting& setting) {
  switch (setting.type) {
    case SettingType::boolean:
      return "true or false";
    case SettingType::choice:
      return join(setting.choices, ", ");
    case SettingType::text:
      return "text";
    case SettingType::integer:
    case SettingType::real:
      break;
  }
  const char* kind =
      setting.type == SettingType::integer ? "a whole number" : "a number";
  if (setting.maximum == INT64_MAX) {
    return str_cat(kind, ", ", setting.minimum, " or more");
  }
  return str_cat(kind, " from ", setting.minimum, " to ", setting.maximum);
}

Json parse_setting(
    const Setting& setting,
    const std::string& text,
    const std::string& subject) {
  switch (setting.type) {
    case SettingType::boolean:
      if (const auto value = parse_boolean(text)) {
        return *value;
      }
      refuse(setting, text, subject);
    case SettingType::integer:
      return parse_number(setting, text, subject);
    case SettingType::real:
      return parse_real(setting, text, subject);
    case SettingType::choice:
      return parse_choice(setting, text, subject);
    case SettingType::text:
      return text;
  }
  throw InternalError(str_cat("setting `", setting.name, "` has no type"));
}

}  // namespace accelerate
