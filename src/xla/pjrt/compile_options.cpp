// SPDX-License-Identifier: Apache-2.0
#include "xla/pjrt/compile_options.h"

namespace accelerate::xla {
namespace {

// Field numbers of xla/pjrt/proto/compile_options.proto.
constexpr int kExecutableBuildOptions = 3;
constexpr int kNumReplicas = 4;
constexpr int kNumPartitions = 5;
constexpr int kUseSpmdPartitioning = 6;
constexpr int kUseShardyPartitioner = 19;

// The two wire types that are needed.
constexpr int kVarint = 0;
constexpr int kBytes = 2;

void append_varint(std::string& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) {
    to.push_back(static_cast<char>(value | 0x80));
  }
  to.push_back(static_cast<char>(value));
}

void append_key(std::string& to, int field, int wire_type) {
  append_varint(to, static_cast<std::uint64_t>(field << 3 | wire_type));
}

void append_number(std::string& to, int field, std::int64_t value) {
  append_key(to, field, kVarint);
  append_varint(to, static_cast<std::uint64_t>(value));
}

void append_message(std::string& to, int field, const std::string& message) {
  append_key(to, field, kBytes);
  append_varint(to, message.size());
  to += message;
}

}  // namespace

std::string encode(const CompileOptions& options) {
  std::string build;
  append_number(build, kNumReplicas, 1);
  append_number(build, kNumPartitions, options.num_partitions);
  if (options.num_partitions > 1) {
    append_number(build, kUseSpmdPartitioning, 1);
    append_number(build, kUseShardyPartitioner, 1);
  }
  std::string result;
  append_message(result, kExecutableBuildOptions, build);
  return result;
}

}  // namespace accelerate::xla
