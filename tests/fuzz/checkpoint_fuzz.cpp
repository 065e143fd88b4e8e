// SPDX-License-Identifier: Apache-2.0
// Parses any bytes as the manifest of a checkpoint; then lists, verifies and
// compares checkpoint directories. The parts of an input are two checkpoints of
// three files each: the manifest, a document and a tensor file.
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "accelerate/error.h"
#include "accelerate/json.h"
#include "checkpoint_directory/checkpoints.h"
#include "checkpoint_directory/checksum.h"
#include "checkpoint_directory/documents.h"
#include "checkpoint_directory/manifest.h"
#include "checkpoint_directory/tensor_table.h"
#include "tests/fuzz/input.h"
#include "tests/support/temporary_directory.h"

namespace {

using namespace accelerate;
using Parts = std::vector<std::string>;

constexpr std::array kFiles = {
    kManifestFile, "optimizer.json", "model.safetensors"};

// No mutation finds the right checksum, so the manifest gets one.
std::string with_checksum(const std::string& text) {
  try {
    Json json = Json::parse(text);
    json.as_object().erase("checksum");
    json["checksum"] = checksum_of(json.dump());
    return json.dump();
  } catch (const FormatError&) {
    return text;
  }
}

std::optional<Manifest> parse(const std::string& text) {
  try {
    return parse_manifest(text, kManifestFile);
  } catch (const FormatError&) {
    return std::nullopt;  // The only allowed error for a bad manifest.
  }
}

void check_round_trip(const Manifest& manifest) {
  const auto again = parse(manifest.to_json());
  fuzz::expect(again && again->to_json() == manifest.to_json());
  fuzz::expect(again->bytes() == manifest.bytes());
}

void write_checkpoint(
    const TemporaryDirectory& folder, const std::string& name, Parts parts) {
  parts[0] = with_checksum(parts[0]);
  for (std::size_t i = 0; i < kFiles.size(); ++i) {
    (void)folder.write(std::filesystem::path(name) / kFiles[i], parts[i]);
  }
}

template <typename Function>
void call(const Function& function) {
  try {
    (void)function();
  } catch (const FormatError&) {
    // A bad file.
  } catch (const IoError&) {
    // A missing file.
  }
}

void read_directories(const Parts& parts) {
  static const TemporaryDirectory folder;
  write_checkpoint(folder, "checkpoint_1", {parts.begin(), parts.begin() + 3});
  write_checkpoint(folder, "checkpoint_2", {parts.begin() + 3, parts.end()});
  const auto first = folder.path() / "checkpoint_1";
  const auto second = folder.path() / "checkpoint_2";
  for (const CheckpointEntry& entry : list_checkpoints(folder.path())) {
    if (entry.manifest) {
      call([&] { return verify_checkpoint(entry.path, *entry.manifest); });
      call([&] { return tensors_of_checkpoint(entry.path, *entry.manifest); });
    }
  }
  call([&] { return compare_documents(first, second); });
  call([&] { return compare_checkpoints(first, second); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(
    const std::uint8_t* data, std::size_t size) {
  Parts parts = fuzz::parts_of(data, size);
  (void)parse(parts[0]);
  const auto manifest = parse(with_checksum(parts[0]));
  if (manifest) {
    check_round_trip(*manifest);
    parts.resize(2 * kFiles.size());
    read_directories(parts);
  }
  return 0;
}
