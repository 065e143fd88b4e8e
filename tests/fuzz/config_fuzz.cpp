// SPDX-License-Identifier: Apache-2.0
// Parses any bytes as a configuration file: YAML and JSON, of Hugging Face
// Accelerate and of this library.
#include <cstddef>
#include <cstdint>
#include <string>

#include "accelerate/error.h"
#include "config/config_file.h"

extern "C" int LLVMFuzzerTestOneInput(
    const std::uint8_t* data, std::size_t size) {
  using namespace accelerate;
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const char* path : {"c.yaml", "c.json"}) {
    for (const SettingFile kind : {SettingFile::python, SettingFile::cpp}) {
      try {
        Settings settings;
        apply_config_text(settings, text, path, kind);
        // A file that was read can be written and read again.
        Settings reread;
        apply_config_text(
            reread,
            python_file_text(settings, path),
            path,
            SettingFile::python);
      } catch (const ConfigError&) {
        // The only allowed error for a bad file.
      }
    }
  }
  return 0;
}
