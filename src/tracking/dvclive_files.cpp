// SPDX-License-Identifier: Apache-2.0
#include "tracking/dvclive_files.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/mapped_file.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "base/utf8.h"
#include "tracking/csv_tracker.h"
#include "tracking/run_files.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

std::string python_float(double value) {
  if (std::isnan(value)) {
    return "nan";
  }
  if (std::isinf(value)) {
    return value > 0 ? "inf" : "-inf";
  }
  return Json(value).dump();
}

std::string tsv_text(const std::string& text) {
  if (text.find_first_of("\t\"\r\n") == std::string::npos) {
    return text;
  }
  return str_cat("\"", replace_all(text, "\"", "\"\""), "\"");
}

std::string tsv_cell(const TrackedValue& value) {
  return std::visit(
      [](const auto& content) -> std::string {
        using Content = std::decay_t<decltype(content)>;
        if constexpr (std::is_same_v<Content, bool>) {
          return content ? "True" : "False";
        } else if constexpr (std::is_same_v<Content, double>) {
          return python_float(content);
        } else if constexpr (std::is_same_v<Content, std::string>) {
          return tsv_text(content);
        } else if constexpr (std::is_same_v<Content, Histogram>) {
          return {};
        } else {
          return std::to_string(content);
        }
      },
      value);
}

std::string milliseconds_text(std::int64_t time_us) {
  char fraction[24];
  std::snprintf(
      fraction,
      sizeof(fraction),
      "%03lld",
      static_cast<long long>(time_us % 1000));
  return str_cat(time_us / 1000, ".", fraction);
}

// The value of a cell of a file that this library wrote.
Json value_of_cell(const std::string& cell) {
  if (const auto integer = parse_integer(cell)) {
    return Json(*integer);
  }
  const auto number = parse_double(cell);
  if (number && std::isfinite(*number)) {
    return Json(*number);
  }
  return cell == "True" || cell == "False" ? Json(cell == "True") : Json(cell);
}

// YAML forbids some characters that JSON allows in strings.
std::string yaml_string(const std::string& text) {
  const std::string json = Json(text).dump();
  std::string result;
  for (std::string_view rest = json; !rest.empty();) {
    const auto c = decode_utf8(rest);
    const std::size_t bytes = c ? c->bytes : 1;
    const char32_t value = c ? c->value : 0xFFFD;
    const bool control = value >= 0x7f && value < 0xa0;
    if (control || value == 0xFEFF || value == 0xFFFE || value == 0xFFFF) {
      char escape[16];
      std::snprintf(
          escape, sizeof(escape), "\\u%04x", static_cast<unsigned>(value));
      result += escape;
    } else {
      result += rest.substr(0, bytes);
    }
    rest.remove_prefix(bytes);
  }
  return result;
}

// Readers of YAML 1.1 need the point in a number such as `1.0e-05`.
std::string yaml_number(double value) {
  std::string text = python_float(value);
  if (!std::isfinite(value)) {
    return std::isnan(value) ? ".nan" : value > 0 ? ".inf" : "-.inf";
  }
  const std::size_t exponent = text.find('e');
  if (exponent != std::string::npos && text.find('.') == std::string::npos) {
    text.insert(exponent, ".0");
  }
  return text;
}

bool is_plain_yaml(const std::string& key) {
  constexpr std::array kWords{
      "true", "false", "null", "yes", "no", "on", "off", "y", "n"};
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
  return !key.empty() && kLetters.find(key[0]) != std::string_view::npos &&
         key.find_first_not_of(str_cat(kLetters, "0123456789-.")) ==
             std::string::npos &&
         std::ranges::find(kWords, lower(key)) == kWords.end();
}

std::string yaml_key(const std::string& key) {
  return is_plain_yaml(key) ? key : yaml_string(key);
}

std::string yaml_flow(const Json& value) {
  std::vector<std::string> parts;
  if (value.is_string()) {
    return yaml_string(value.as_string());
  }
  if (value.type() == Json::Type::real) {
    return yaml_number(value.as_double());
  }
  if (value.is_array()) {
    for (const Json& element : value.as_array()) {
      parts.push_back(yaml_flow(element));
    }
    return str_cat("[", join(parts, ", "), "]");
  }
  if (value.is_object()) {
    for (const JsonMember& member : value.as_object()) {
      parts.push_back(
          str_cat(yaml_string(member.key), ": ", yaml_flow(member.value)));
    }
    return str_cat("{", join(parts, ", "), "}");
  }
  return value.dump();
}

void write_yaml_block(
    const Json& mapping, const std::string& indent, std::string& text) {
  for (const JsonMember& member : mapping.as_object()) {
    text += indent + yaml_key(member.key) + ":";
    if (member.value.is_object() && member.value.size() > 0) {
      text += "\n";
      write_yaml_block(member.value, indent + "  ", text);
    } else {
      text += " " + yaml_flow(member.value) + "\n";
    }
  }
}

}  // namespace

fs::path dvc_path(const std::string& key, const char* extension) {
  fs::path path;
  const std::vector<std::string> parts = split(key, '/');
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    const std::string part = file_name_of(parts[i]);
    // `%` is followed by two digits in all other names.
    path /= part.ends_with(extension) ? part + "%" : part;
  }
  return path / (file_name_of(parts.back()) + extension);
}

std::string dvc_header(const std::string& key) {
  std::string name = split(key, '/').back();
  if (name.empty() || name == "step" || name == "timestamp") {
    name = key == name ? "value" : key;
  }
  return str_cat("timestamp\tstep\t", tsv_text(name), "\n");
}

std::string dvc_row(
    std::int64_t time_us, std::int64_t step, const TrackedValue& value) {
  return str_cat(
      milliseconds_text(time_us), "\t", step, "\t", tsv_cell(value), "\n");
}

Json dvc_summary_value(const TrackedValue& value) {
  return std::visit(
      [](const auto& content) -> Json {
        using Content = std::decay_t<decltype(content)>;
        if constexpr (std::is_same_v<Content, double>) {
          return std::isfinite(content) ? Json(content)
                                        : Json(python_float(content));
        } else if constexpr (std::is_same_v<Content, Histogram>) {
          return {};
        } else {
          return Json(content);
        }
      },
      value);
}

void set_dvc_summary(Json& summary, const std::string& key, const Json& value) {
  Json* place = &summary;
  const std::vector<std::string> parts = split(key, '/');
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Json* const there = place->find(parts[i]);
    const bool last = i + 1 == parts.size();
    if (there != nullptr && there->is_object() == last) {
      summary[parts.size() == 1 ? key + "/" : key] = value;
      return;
    }
    place = &(*place)[parts[i]];
    if (place->is_null() && !last) {
      *place = Json::object();
    }
  }
  *place = value;
}

DvcHistory cut_dvc_history(const fs::path& path, std::int64_t keep_until_us) {
  DvcHistory history;
  std::size_t kept = 0;
  const std::size_t size = fs::file_size(path);
  if (size > 0) {
    const MappedFile file(path, MappedFile::Mode::read_only);
    std::string_view rest = file.text();
    std::vector<std::string> cells;
    read_csv_row(rest, cells, '\t');  // The header.
    while (read_csv_row(rest, cells, '\t') && cells.size() == 3) {
      const std::int64_t time_us =
          std::llround(parse_double(cells[0]).value_or(0) * 1000);
      if (time_us > keep_until_us) {
        break;
      }
      history = {
          time_us,
          parse_integer(cells[1]).value_or(0),
          value_of_cell(cells[2])};
      kept = file.size() - rest.size();
    }
  }
  if (kept == 0) {
    fs::remove(path);
  } else if (kept < size) {
    fs::resize_file(path, kept);
  }
  return history;
}

std::string dvc_yaml(const Json& config) {
  if (!config.is_object() || config.size() == 0) {
    return "{}\n";
  }
  std::string text;
  write_yaml_block(config, "", text);
  return text;
}

}  // namespace accelerate
