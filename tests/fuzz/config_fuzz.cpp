// SPDX-License-Identifier: Apache-2.0
// Any bytes as a configuration file, YAML and JSON, the peer's and ours.
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
    for (const SettingFile kind : {SettingFile::peer, SettingFile::own}) {
      try {
        Settings settings;
        apply_config_text(settings, text, path, kind);
        // What was read can be written and read again.
        Settings again;
        apply_config_text(
            again, peer_file_text(settings, path), path, SettingFile::peer);
      } catch (const ConfigError&) {
        // The one answer to a bad file.
      }
    }
  }
  return 0;
}
