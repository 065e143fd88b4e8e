// SPDX-License-Identifier: Apache-2.0
#include "config/config_file.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>

#include "accelerate/error.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "config/user_folders.h"
#include "config/yaml.h"

namespace accelerate {
namespace {

// A configuration file has about thirty lines, so a larger file is a mistake.
constexpr std::size_t kMaxBytes = std::size_t{1} << 20;
constexpr std::size_t kMaxShown = 60;

/// The text of a file, and whether other users could have written it.
struct FileText {
  std::string text;
  bool is_only_ours = false;  ///< Only this user or root can write the file.
};

FileText read_text(const std::filesystem::path& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status{};
  if (!fd || ::fstat(fd.get(), &status) != 0) {
    throw_errno("read", path, errno);
  }
  if (status.st_size > static_cast<off_t>(kMaxBytes)) {
    throw ConfigError(
        str_cat(
            path.string(),
            ":1: the file has ",
            status.st_size,
            " bytes, but a configuration file may have at most ",
            kMaxBytes),
        "check the path");
  }
  const bool is_ours = status.st_uid == ::geteuid() || status.st_uid == 0;
  return {
      read_descriptor(fd.get(), path, kMaxBytes),
      is_ours && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0};
}

FileText read_config(const std::filesystem::path& path) {
  try {
    return read_text(path);
  } catch (const IoError& error) {
    throw ConfigError(error.what(), error.hint());
  }
}

// Applies one file to the settings.
class Reader {
 public:
  Reader(Settings& settings, const std::string& path, SettingFile kind)
      : settings_(settings), path_(path), kind_(kind) {}

  void read(const ConfigNode& root) {
    if (root.kind == ConfigNode::Kind::null) {
      return;
    }
    if (root.kind != ConfigNode::Kind::map) {
      fail(root.line, "expected `key: value` lines");
    }
    for (const auto& member : root.members) {
      top_level(member);
    }
    refuse_unknown_keys();
    if (kind_ == SettingFile::python &&
        root.find("distributed_type") == nullptr &&
        root.find("compute_environment") != nullptr) {
      fail(1, "the key `distributed_type` is missing");
    }
  }

 private:
  struct UnknownKey {
    int line = 0;
    std::string name;
    std::string hint;
  };

  [[noreturn]] void fail(
      int line, const std::string& text, const std::string& hint = {}) const {
    throw ConfigError(str_cat(path_, ":", line, ": ", text), hint);
  }

  Origin origin(int line) const {
    return {Origin::Kind::file, str_cat(path_, ":", line)};
  }

  void top_level(const ConfigNode::Member& member) {
    if (kind_ == SettingFile::python && legacy(member)) {
      return;
    }
    if (const Setting* setting = known(member.key, "")) {
      take(*setting, member);
      return;
    }
    if (kind_ == SettingFile::python && section(member)) {
      return;
    }
    const PythonSetting* python_setting = find_python_key("", member.key);
    if (python_setting != nullptr && kind_ == SettingFile::python) {
      check_inert(*python_setting, member);
      return;
    }
    unknown(member, "");
  }

  const Setting* known(
      const std::string& key, const std::string& section_name) const {
    const Setting* setting = find_setting(key);
    const bool fits = setting != nullptr && setting->file == kind_ &&
                      setting->section == section_name;
    return fits ? setting : nullptr;
  }

  // Applies an old key of Hugging Face Accelerate; returns false for other
  // keys.
  bool legacy(const ConfigNode::Member& member) {
    if (member.key != "fp16") {
      return false;
    }
    const auto truth = parse_boolean(member.value.text);
    if (member.value.kind != ConfigNode::Kind::null && !truth) {
      fail(
          member.line,
          str_cat(
              "`fp16` is `",
              member.value.text,
              "`, but must be true or false"));
    }
    if (truth.value_or(false)) {
      settings_.set("mixed_precision", "fp16", origin(member.line));
    }
    return true;
  }

  // Applies a sub-dictionary of settings, such as `mpirun_config`; returns
  // false for other keys.
  bool section(const ConfigNode::Member& member) {
    if (!is_section(member.key)) {
      return false;
    }
    if (member.value.kind == ConfigNode::Kind::null) {
      return true;
    }
    if (member.value.kind != ConfigNode::Kind::map) {
      fail(
          member.line,
          str_cat("`", member.key, "` must contain `key: value` lines"));
    }
    for (const auto& inner : member.value.members) {
      in_section(member.key, inner);
    }
    return true;
  }

  static bool is_section(const std::string& key) {
    const auto in = [&](const auto& all) {
      return std::any_of(all.begin(), all.end(), [&](const auto& entry) {
        return entry.section == key;
      });
    };
    return !key.empty() && (in(all_settings()) || in(python_settings()));
  }

  void in_section(
      const std::string& section_name, const ConfigNode::Member& member) {
    if (const Setting* setting = known(member.key, section_name)) {
      take(*setting, member);
      return;
    }
    if (const PythonSetting* python_setting =
            find_python_key(section_name, member.key)) {
      check_inert(*python_setting, member);
      return;
    }
    unknown(member, section_name);
  }

  void take(const Setting& setting, const ConfigNode::Member& member) {
    const ConfigNode& value = member.value;
    if (value.kind == ConfigNode::Kind::null) {
      return;
    }
    if (value.kind != ConfigNode::Kind::scalar) {
      fail(
          member.line,
          str_cat(
              "`",
              member.key,
              "` is a ",
              value.kind == ConfigNode::Kind::map ? "dictionary" : "list",
              ", but must be ",
              setting.type == SettingType::choice ? "one of " : "",
              allowed_values(setting)));
    }
    // Hugging Face Accelerate writes -1 for "must be on the command line".
    if (setting.name == "num_processes" && value.text == "-1") {
      return;
    }
    check_distributed_type(setting, member);
    settings_.set(
        setting.name,
        parse_setting(
            setting,
            value.text,
            str_cat(path_, ":", member.line, ": `", member.key, "`")),
        origin(member.line));
  }

  // Rejects values that request an unsupported feature of Hugging Face
  // Accelerate.
  void check_distributed_type(
      const Setting& setting, const ConfigNode::Member& member) const {
    const std::string word = lower(member.value.text);
    const bool is_type = setting.name == "distributed_type";
    const char* feature = nullptr;
    if (is_type && word == "deepspeed") {
      feature = "DeepSpeed";
    } else if (is_type && word == "fsdp") {
      feature = "FSDP";
    } else if (is_type && word == "megatron_lm") {
      feature = "Megatron-LM";
    } else if (is_type && (word == "xla" || word == "tpu")) {
      feature = "TPU training";
    } else if (
        is_type && word.starts_with("multi_") && word != "multi_cpu" &&
        word != "multi_gpu") {
      feature = "a device other than a CPU or an NVIDIA GPU";
    } else if (
        setting.name == "compute_environment" && word == "amazon_sagemaker") {
      feature = "Amazon SageMaker";
    }
    if (feature != nullptr) {
      fail(
          member.line,
          str_cat(
              "`",
              member.key,
              ": ",
              member.value.text,
              "` requests ",
              feature,
              ", which this version does not support"));
    }
  }

  void check_inert(
      const PythonSetting& python_setting,
      const ConfigNode::Member& member) const {
    const std::string text = shown(member.value);
    const bool inert =
        member.value.kind == ConfigNode::Kind::null ||
        std::any_of(
            python_setting.inert.begin(),
            python_setting.inert.end(),
            [&](const std::string& word) { return word == lower(text); });
    if (!inert) {
      fail(
          member.line,
          str_cat(
              "`",
              member.key,
              ": ",
              printable(text).substr(0, kMaxShown),
              "` is for ",
              python_setting.feature,
              ", which this version does not support"),
          python_setting.inert.empty()
              ? "remove the line"
              : str_cat(
                    "remove the line, or set the key to `",
                    python_setting.inert[0],
                    "`"));
    }
  }

  static std::string shown(const ConfigNode& value) {
    switch (value.kind) {
      case ConfigNode::Kind::null:
        return "null";
      case ConfigNode::Kind::scalar:
        return value.text;
      case ConfigNode::Kind::sequence:
        return value.items.empty() ? "[]" : "[…]";
      case ConfigNode::Kind::map:
        return value.members.empty() ? "{}" : "{…}";
    }
    return "";
  }

  // Stores the key, because one error lists all unknown keys of the file.
  void unknown(
      const ConfigNode::Member& member, const std::string& section_name) {
    std::vector<std::string> names;
    for (const Setting& setting : all_settings()) {
      if (setting.file == kind_ && setting.section == section_name) {
        names.push_back(setting.name);
      }
    }
    for (const PythonSetting& python_setting : python_settings()) {
      if (python_setting.is_key && kind_ == SettingFile::python &&
          python_setting.section == section_name) {
        names.push_back(python_setting.name);
      }
    }
    unknown_keys_.push_back(
        {member.line, member.key, wrong_file_hint(member.key, names)});
  }

  void refuse_unknown_keys() const {
    if (unknown_keys_.empty()) {
      return;
    }
    const UnknownKey& first = unknown_keys_.front();
    if (unknown_keys_.size() == 1) {
      fail(
          first.line,
          str_cat("unknown key `", printable(first.name), "`"),
          first.hint);
    }
    std::string list;
    for (const UnknownKey& key : unknown_keys_) {
      list += str_cat("\n  line ", key.line, ": `", printable(key.name), "`");
      list += key.hint.empty() ? "" : str_cat("; ", key.hint);
    }
    fail(
        first.line,
        str_cat(unknown_keys_.size(), " unknown keys", list),
        "correct or remove them");
  }

  std::string wrong_file_hint(
      const std::string& key, const std::vector<std::string>& names) const {
    const Setting* setting = find_setting(key);
    if (setting != nullptr && setting->file == SettingFile::cpp) {
      return str_cat(
          "move `", key, "` to accelerate_cpp.yaml in the same folder");
    }
    if (setting != nullptr && setting->file == SettingFile::none) {
      return str_cat("pass it as `--", setting->flag, "`");
    }
    return did_you_mean(key, names);
  }

  Settings& settings_;
  const std::string& path_;
  SettingFile kind_;
  std::vector<UnknownKey> unknown_keys_;
};

bool is_in_own_folder(
    const std::filesystem::path& path, const Environment& environment) {
  std::error_code error;
  const auto folder = [&](const std::filesystem::path& of) {
    return std::filesystem::weakly_canonical(of, error);
  };
  return folder(std::filesystem::absolute(path).parent_path()) ==
         folder(std::filesystem::absolute(config_folder(environment)));
}

// Throws if a setting chooses a program but comes from a file that another user
// may have written.
void check_programs(
    const Settings& settings, const bool is_only_ours, const bool is_own) {
  for (const Setting& setting : all_settings()) {
    const Origin& origin = settings.origin(setting.name);
    if (!setting.chooses_program || origin.kind != Origin::Kind::file ||
        (is_own && is_only_ours)) {
      continue;
    }
    throw ConfigError(
        str_cat(
            origin.where,
            ": `",
            setting.name,
            "` chooses a program to run, so it is not accepted here: ",
            is_own ? "other users can write to the file"
                   : "the file is not in your own configuration folder"),
        str_cat("pass `--", setting.flag, "`, or set ", setting.variable));
  }
}

// Whether PyYAML reads the unquoted text as a string.
bool reads_as_text(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-";
  const std::string word = lower(text);
  const bool reserved = word == "null" || parse_boolean(word).has_value();
  return !text.empty() && !reserved &&
         text.find_first_not_of(kPlain) == std::string::npos &&
         std::isalpha(static_cast<unsigned char>(text[0])) != 0;
}

std::string yaml_scalar(const Json& value) {
  if (!value.is_string()) {
    return value.dump();
  }
  const std::string& text = value.as_string();
  if (reads_as_text(text)) {
    return text;
  }
  // Control characters need double quotes.
  const bool control = std::any_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20;
  });
  return control ? value.dump({.ensure_ascii = true})
                 : str_cat("'", replace_all(text, "'", "''"), "'");
}

// Includes keys that Hugging Face Accelerate writes but that are not settings
// here.
Json python_document(const Settings& settings) {
  Json document = Json::object(
      {{"downcast_bf16", "no"},
       {"main_training_function", "main"},
       {"tpu_env", Json::array()},
       {"tpu_use_cluster", false},
       {"tpu_use_sudo", false}});
  for (const Setting& setting : all_settings()) {
    if (setting.file != SettingFile::python || !settings.has(setting.name)) {
      continue;
    }
    Json& parent =
        setting.section.empty() ? document : document[setting.section];
    parent[setting.name] = settings.value(setting.name);
  }
  auto& members = document.as_object();
  std::sort(
      members.begin(),
      members.end(),
      [](const JsonMember& a, const JsonMember& b) { return a.key < b.key; });
  return document;
}

void write_yaml(const Json& object, std::size_t indent, std::string& out) {
  for (const auto& [key, value] : object.as_object()) {
    out += std::string(indent, ' ') + key + ":";
    if (value.is_object()) {
      out += "\n";
      write_yaml(value, indent + 2, out);
    } else {
      out += " " + yaml_scalar(value) + "\n";
    }
  }
}

}  // namespace

std::filesystem::path default_config_path(const Environment& environment) {
  return config_folder(environment) / "default_config.yaml";
}

std::filesystem::path cpp_config_path(
    const std::filesystem::path& python_path) {
  return python_path.parent_path() / "accelerate_cpp.yaml";
}

void apply_config_text(
    Settings& settings,
    const std::string& text,
    const std::string& path,
    SettingFile kind) {
  Reader(settings, path, kind).read(parse_config(text, path));
}

void apply_config_file(
    Settings& settings, const std::filesystem::path& path, SettingFile kind) {
  apply_config_text(settings, read_config(path).text, path.string(), kind);
}

void check_can_be_saved(
    const Settings& settings,
    const std::filesystem::path& python_path,
    const Environment& environment) {
  if (is_in_own_folder(python_path, environment)) {
    return;
  }
  for (const Setting& setting : all_settings()) {
    if (setting.chooses_program &&
        settings.is_from_command_line(setting.name)) {
      throw ConfigError(
          str_cat(
              "`--",
              setting.flag,
              "` can be saved only in ",
              config_folder(environment).string(),
              ", because it chooses a program to run"),
          str_cat("pass it to `accelerate launch`, or set ", setting.variable));
    }
  }
}

std::vector<std::filesystem::path> apply_config_files(
    Settings& settings,
    const std::optional<std::string>& explicit_path,
    const Environment& environment) {
  std::vector<std::filesystem::path> used;
  std::filesystem::path path = default_config_path(environment);
  if (explicit_path) {
    path = expand_home(*explicit_path, environment);
    if (!std::filesystem::exists(path)) {
      throw ConfigError(
          str_cat("--config_file ", path.string(), " does not exist"),
          str_cat(
              "create it with `accelerate config --config_file ",
              path.string(),
              "`"));
    }
  }
  if (std::filesystem::exists(path)) {
    apply_config_file(settings, path, SettingFile::python);
    used.push_back(path);
  }
  const std::filesystem::path cpp_path = cpp_config_path(path);
  if (std::filesystem::exists(cpp_path)) {
    const FileText file = read_config(cpp_path);
    apply_config_text(settings, file.text, cpp_path.string(), SettingFile::cpp);
    check_programs(
        settings, file.is_only_ours, is_in_own_folder(path, environment));
    used.push_back(cpp_path);
  }
  return used;
}

std::string python_file_text(
    const Settings& settings, const std::filesystem::path& path) {
  const Json document = python_document(settings);
  if (path.extension() == ".json") {
    return document.dump({.indent = 2}) + "\n";
  }
  std::string out;
  write_yaml(document, 0, out);
  return out;
}

std::string cpp_file_text(const Settings& settings) {
  const Settings defaults;
  std::string out;
  for (const Setting& setting : all_settings()) {
    if (setting.file == SettingFile::cpp && settings.has(setting.name) &&
        settings.value(setting.name) != defaults.value(setting.name)) {
      out += str_cat(
          setting.name, ": ", yaml_scalar(settings.value(setting.name)), "\n");
    }
  }
  return out;
}

}  // namespace accelerate
