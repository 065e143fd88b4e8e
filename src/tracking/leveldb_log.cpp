// SPDX-License-Identifier: Apache-2.0
#include "tracking/leveldb_log.h"

#include <algorithm>

#include "tracking/crc32c.h"

namespace accelerate {
namespace {

constexpr std::size_t kBlockBytes = 32768;
// A checksum (4 bytes), the length (2 bytes) and the type (1 byte).
constexpr std::size_t kChunkHeaderBytes = 7;

enum ChunkType : char { kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

ChunkType chunk_type(bool first, bool last) {
  return first ? (last ? kFull : kFirst) : (last ? kLast : kMiddle);
}

std::string little_endian(std::uint64_t value, std::size_t bytes) {
  std::string result;
  for (std::size_t i = 0; i < bytes; ++i) {
    result += static_cast<char>(value >> (8 * i) & 0xffU);
  }
  return result;
}

std::uint64_t from_little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (auto byte = bytes.rbegin(); byte != bytes.rend(); ++byte) {
    value = value << 8U | static_cast<unsigned char>(*byte);
  }
  return value;
}

// A block that has no room for the header of a chunk ends with zeros.
std::size_t padding_at(std::uint64_t position) {
  const std::size_t room = kBlockBytes - position % kBlockBytes;
  return room < kChunkHeaderBytes ? room : 0;
}

}  // namespace

struct LogRecordReader::Chunk {
  char type;
  std::string_view data;
  std::size_t end;
};

std::string framed_log_record(
    std::string_view record, std::uint64_t file_size) {
  std::string result;
  bool first = true;
  do {
    result.append(padding_at(file_size + result.size()), '\0');
    const std::size_t room =
        kBlockBytes - (file_size + result.size()) % kBlockBytes;
    const std::string_view data = record.substr(0, room - kChunkHeaderBytes);
    record.remove_prefix(data.size());
    std::string typed(1, chunk_type(first, record.empty()));
    typed += data;
    result += little_endian(crc32(typed), 4);
    result += little_endian(data.size(), 2);
    result += typed;
    first = false;
  } while (!record.empty());
  return result;
}

std::optional<LogRecordReader::Chunk> LogRecordReader::chunk_at(
    std::size_t position) const {
  position += padding_at(position);
  if (position + kChunkHeaderBytes > file_.size()) {
    return std::nullopt;
  }
  const std::string_view header = file_.substr(position, kChunkHeaderBytes);
  const auto size =
      static_cast<std::size_t>(from_little_endian(header.substr(4, 2)));
  const std::size_t end = position + kChunkHeaderBytes + size;
  const char type = header.back();
  if (type < kFull || type > kLast || end > file_.size() ||
      crc32(file_.substr(position + kChunkHeaderBytes - 1, size + 1)) !=
          from_little_endian(header.substr(0, 4))) {
    return std::nullopt;
  }
  return Chunk{type, file_.substr(end - size, size), end};
}

std::optional<std::string> LogRecordReader::next() {
  std::string record;
  bool first = true;
  for (std::size_t position = position_;;) {
    const std::optional<Chunk> chunk = chunk_at(position);
    if (!chunk || first != (chunk->type == kFull || chunk->type == kFirst)) {
      return std::nullopt;
    }
    record += chunk->data;
    position = chunk->end;
    first = false;
    if (chunk->type == kFull || chunk->type == kLast) {
      position_ = position;
      return record;
    }
  }
}

}  // namespace accelerate
