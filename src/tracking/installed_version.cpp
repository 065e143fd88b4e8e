// SPDX-License-Identifier: Apache-2.0
#include "tracking/installed_version.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <vector>

#include <unistd.h>

#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    entries.push_back(entry.path());
  }
  std::ranges::sort(entries);
  return entries;
}

// The folders with packages under `prefix`, such as
// `lib/python3.11/site-packages`. `python` is the name of the interpreter's
// file; if it has a version, only that version's folders count.
void add_package_folders(
    const fs::path& prefix,
    const std::string& python,
    std::vector<fs::path>& folders) {
  for (const char* lib : {"lib", "lib64"}) {
    for (const fs::path& version : sorted_entries(prefix / lib)) {
      const std::string name = version.filename().string();
      const bool matches =
          name == "python3" || name == python || python == "python3";
      if (name.starts_with("python3") && matches) {
        folders.push_back(version / "site-packages");
        folders.push_back(version / "dist-packages");
      }
    }
  }
}

std::vector<fs::path> package_folders(const Environment& environment) {
  std::vector<fs::path> folders;
  for (const std::string& folder :
       split(environment.get("PYTHONPATH").value_or(""), ':')) {
    folders.emplace_back(folder);
  }
  const std::optional<fs::path> python = python_on_path(environment);
  if (!python) {
    return {};
  }
  std::error_code ignored;
  const fs::path real = fs::canonical(*python, ignored);
  const std::string name = real.filename().string();
  const fs::path prefix = python->parent_path().parent_path();
  add_package_folders(prefix, name, folders);
  // A virtual environment is a folder with this file; its `python3` is a link.
  if (fs::exists(prefix / "pyvenv.cfg", ignored)) {
    return folders;
  }
  const fs::path installation = real.parent_path().parent_path();
  add_package_folders(installation, name, folders);
  add_package_folders(installation / "local", name, folders);
  if (const auto home = environment.get("HOME")) {
    add_package_folders(fs::path(*home) / ".local", name, folders);
  }
  return folders;
}

}  // namespace

std::optional<fs::path> python_on_path(const Environment& environment) {
  const std::string path = environment.get("PATH").value_or("");
  for (const std::string& folder : split(path, ':')) {
    const fs::path candidate = fs::path(folder) / "python3";
    std::error_code ignored;
    if (!folder.empty() && fs::is_regular_file(candidate, ignored) &&
        ::access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  return std::nullopt;
}

std::optional<std::string> installed_version(
    const std::string& package, const Environment& environment) {
  constexpr std::string_view kSuffix = ".dist-info";
  const std::string prefix = package + "-";
  for (const fs::path& folder : package_folders(environment)) {
    for (const fs::path& entry : sorted_entries(folder)) {
      const std::string name = entry.filename().string();
      if (name.starts_with(prefix) && name.ends_with(kSuffix)) {
        return name.substr(
            prefix.size(), name.size() - prefix.size() - kSuffix.size());
      }
    }
  }
  return std::nullopt;
}

void warn_about_other_version(
    const std::string& package,
    const std::string& supported,
    const Environment& environment) {
  const auto version = installed_version(package, environment);
  if (!version || *version == supported ||
      version->starts_with(supported + ".")) {
    return;
  }
  std::cerr << str_cat(
                   "warning: tracker `",
                   package,
                   "` writes the format of ",
                   package,
                   " ",
                   supported,
                   ", but version ",
                   printable(*version),
                   " is installed, which may be unable to read it\n")
            << std::flush;
}

}  // namespace accelerate
