// SPDX-License-Identifier: Apache-2.0
#include "xla/graph/runner.h"

#include <bit>
#include <chrono>
#include <ctime>
#include <filesystem>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "xla/graph/build.h"

namespace accelerate::xla {
namespace {

// One step may run while the next is recorded and started.
constexpr std::size_t kMaxPending = 2;

// The version of cached programs on disk. Increase it when the way programs are
// compiled or stored changes.
constexpr int kCacheVersion = 1;

std::string file_facts(const std::string& path) {
  std::error_code ignored;
  const auto size = std::filesystem::file_size(path, ignored);
  const auto time = std::filesystem::last_write_time(path, ignored);
  return str_cat(path, "\n", size, "\n", time.time_since_epoch().count());
}

std::string platform_facts(const Plugin& plugin, const Client& client) {
  return str_cat(
      kCacheVersion,
      "\n",
      file_facts(plugin.path()),
      "\n",
      plugin.api_version(),
      "\n",
      client.platform_version(),
      "\n",
      client.device_kind(0),
      "\n",
      client.device_count(),
      "\n",
      xla_flags());
}

// The shape of a device's part.
Shape local_shape(Shape shape, const Sharding& sharding, std::int64_t devices) {
  if (sharding.dimension) {
    std::int64_t& size = shape[static_cast<std::size_t>(*sharding.dimension)];
    if (size % devices != 0) {
      throw ArgumentError(str_cat(
          "a dimension of size ",
          size,
          " cannot be divided over ",
          devices,
          " devices"));
    }
    size /= devices;
  }
  return shape;
}

std::string packed(const std::vector<Node*>& scalars, ElementType carrier) {
  std::string bytes;
  const auto append = [&bytes](auto number) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof(number));
  };
  for (const Node* node : scalars) {
    if (carrier == ElementType::f32) {
      append(static_cast<float>(std::bit_cast<double>(node->bits)));
    } else {
      append(node->bits);
    }
  }
  return bytes;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) +
         static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

Runner::Runner(
    const Plugin& plugin, Client client, std::optional<ProgramStore> store)
    : client_(std::move(client)),
      store_(std::move(store)),
      platform_(platform_facts(plugin, client_)) {
}

Value Runner::upload(
    const void* from,
    ElementType type,
    const Shape& shape,
    const Sharding& sharding) const {
  auto array = std::make_shared<DeviceArray>();
  array->sharding = sharding;
  const std::int64_t devices = client_.device_count();
  const Shape local = local_shape(shape, sharding, devices);
  if (sharding.dimension && *sharding.dimension != 0) {
    throw UnsupportedError(
        "only dimension 0 of a CPU tensor can be divided over devices");
  }
  const std::size_t step =
      sharding.dimension
          ? static_cast<std::size_t>(element_count(local)) * size_of(type)
          : 0;
  for (std::int64_t device = 0; device < devices; ++device) {
    const char* part = static_cast<const char*>(from) +
                       step * static_cast<std::size_t>(device);
    array->buffers.push_back(client_.upload(part, type, local, device));
  }
  return input(std::move(array), type, shape);
}

void Runner::download(const Node& node, void* to) const {
  const DeviceArray& array = *node.array;
  const std::size_t bytes =
      static_cast<std::size_t>(element_count(node.shape)) * size_of(node.type);
  if (!array.sharding.dimension) {
    array.buffers[0].download(to, bytes);
    return;
  }
  if (*array.sharding.dimension != 0) {
    throw UnsupportedError(
        "a sharded tensor can be read only if dimension 0 is the sharded one");
  }
  const std::size_t part = bytes / array.buffers.size();
  for (std::size_t i = 0; i < array.buffers.size(); ++i) {
    array.buffers[i].download(static_cast<char*>(to) + i * part, part);
  }
}

std::string Runner::key_of(const std::string& text) const {
  return platform_ + "\n" + text;
}

std::optional<Executable> Runner::load(const std::string& key) const {
  const auto serialized = store_ ? store_->load(key) : std::nullopt;
  if (!serialized) {
    return std::nullopt;
  }
  try {
    return client_.load(*serialized);
  } catch (const Error&) {
    store_->drop(key);
    return std::nullopt;
  }
}

// A full disk, or a plugin that cannot serialize, must not stop a run.
void Runner::save(const std::string& key, const Executable& program) {
  if (!store_) {
    return;
  }
  try {
    store_->save(key, program.serialize());
  } catch (const Error&) {
    store_.reset();
  }
}

const Executable& Runner::program_for(
    const Trace& trace, const Fingerprint& print) {
  const auto found = programs_.find(print);
  if (found != programs_.end()) {
    return found->second;
  }
  const std::string text = emit(trace);
  const std::string key = store_ ? key_of(text) : "";
  auto program = load(key);
  if (program) {
    ++counts_.loaded;
  } else {
    const auto start = std::chrono::steady_clock::now();
    program = client_.compile(text, {.num_partitions = trace.num_devices});
    ++counts_.compiled;
    counts_.compile_seconds += seconds_since(start);
    save(key, *program);
  }
  return programs_.emplace(print, std::move(*program)).first->second;
}

void Runner::limit_pending() {
  while (pending_.size() >= kMaxPending) {
    std::vector<Event> oldest = std::move(pending_.front());
    pending_.pop_front();
    for (Event& event : oldest) {
      event.wait();
    }
  }
}

void Runner::wait() {
  while (!pending_.empty()) {
    std::vector<Event> oldest = std::move(pending_.front());
    pending_.pop_front();
    for (Event& event : oldest) {
      event.wait();
    }
  }
}

std::vector<Value> Runner::run(
    const std::vector<Output>& outputs,
    const std::unordered_set<const Node*>& kept) {
  const double start = thread_seconds();
  const Trace trace = make_trace(outputs, kept, client_.device_count());
  const Fingerprint print = fingerprint(trace);
  counts_.lookup_seconds += thread_seconds() - start;
  const Executable& program = program_for(trace, print);
  limit_pending();

  std::vector<Value> packs;
  for (std::size_t pack = 0; pack < trace.scalars.size(); ++pack) {
    const auto& scalars = trace.scalars[pack];
    if (!scalars.empty()) {
      const std::string bytes = packed(scalars, kScalarTypes[pack]);
      packs.push_back(upload(
          bytes.data(),
          kScalarTypes[pack],
          {static_cast<std::int64_t>(scalars.size())}));
    }
  }
  const auto devices = static_cast<std::size_t>(trace.num_devices);
  std::vector<std::vector<const Buffer*>> arguments(devices);
  for (std::size_t device = 0; device < devices; ++device) {
    for (const Node* node : trace.inputs) {
      arguments[device].push_back(&node->array->buffers[device]);
    }
    for (const Value& pack : packs) {
      arguments[device].push_back(&pack->array->buffers[device]);
    }
  }
  Executable::Run run = program.execute(arguments);
  ++counts_.executed;
  counts_.donated = 0;
  for (const std::int64_t taker : trace.donated_to) {
    counts_.donated += taker >= 0 ? 1 : 0;
  }
  pending_.push_back(std::move(run.finished));

  std::vector<Value> values;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    auto array = std::make_shared<DeviceArray>();
    array->sharding = outputs[i].sharding;
    for (std::size_t device = 0; device < devices; ++device) {
      array->buffers.push_back(std::move(run.outputs[device][i]));
    }
    const Node& node = *outputs[i].value;
    values.push_back(input(std::move(array), node.type, node.shape));
  }
  return values;
}

}  // namespace accelerate::xla
