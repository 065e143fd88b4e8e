// SPDX-License-Identifier: Apache-2.0
#include "launch/hardware.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>

#include <dlfcn.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "accelerate/error.h"
#include "base/cpu_cores.h"
#include "base/files.h"
#include "base/str_cat.h"
#include "base/text.h"

namespace accelerate {
namespace {

// Reads a small file in /proc or /sys; empty when it cannot be read.
std::string slurp(const std::string& path) {
  try {
    return read_file(path, std::size_t{1} << 20);
  } catch (const Error&) {
    return {};
  }
}

// The value of a "key : value" line.
std::string field(const std::string& text, std::string_view key) {
  for (const std::string& line : split(text, '\n')) {
    const auto separator = line.find_first_of(":=");
    if (separator != std::string::npos &&
        trim(std::string_view(line).substr(0, separator)) == key) {
      return std::string(trim(std::string_view(line).substr(separator + 1)));
    }
  }
  return {};
}

// The container's CPU limit, if any.
std::optional<double> cpu_quota() {
  const auto parts =
      split(std::string(trim(slurp("/sys/fs/cgroup/cpu.max"))), ' ');
  if (parts.size() == 2) {
    const auto quota = parse_double(parts[0]);
    const auto period = parse_double(parts[1]);
    if (quota && period && *period > 0) {
      return *quota / *period;
    }
  }
  const auto quota =
      parse_double(trim(slurp("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")));
  const auto period =
      parse_double(trim(slurp("/sys/fs/cgroup/cpu/cpu.cfs_period_us")));
  if (quota && period && *quota > 0 && *period > 0) {
    return *quota / *period;
  }
  return std::nullopt;
}

// The functions that this file needs from NVML, NVIDIA's management library.
class Nvml {
 public:
  Nvml() {
    library_ = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    const auto init = function<int (*)()>("nvmlInit_v2");
    ready_ = init != nullptr && init() == 0;
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  ~Nvml() {
    const auto shutdown = function<int (*)()>("nvmlShutdown");
    if (ready_ && shutdown != nullptr) {
      shutdown();
    }
    if (library_ != nullptr) {
      ::dlclose(library_);
    }
  }

  bool is_ready() const { return ready_; }

  std::string driver_version() const {
    char text[96] = {};
    const auto get =
        function<int (*)(char*, unsigned)>("nvmlSystemGetDriverVersion");
    return get != nullptr && get(text, sizeof(text)) == 0 ? text : "";
  }

  std::vector<Gpu> gpus() const {
    unsigned count = 0;
    const auto get_count =
        function<int (*)(unsigned*)>("nvmlDeviceGetCount_v2");
    if (get_count == nullptr || get_count(&count) != 0) {
      return {};
    }
    std::vector<Gpu> result;
    for (unsigned index = 0; index < count; ++index) {
      result.push_back(gpu(index));
    }
    return result;
  }

 private:
  using Device = void*;
  struct Memory {
    unsigned long long total, free, used;
  };
  // nvmlPciInfo_t: the first field is the old 16-byte address, the last field
  // is the address with a 32-bit domain.
  struct Pci {
    char old_address[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char address[32];
  };

  template <typename Function>
  Function function(const char* name) const {
    return library_ == nullptr
               ? nullptr
               : reinterpret_cast<Function>(::dlsym(library_, name));
  }

  Gpu gpu(unsigned index) const {
    Gpu result;
    Device device = nullptr;
    const auto get_device =
        function<int (*)(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2");
    if (get_device == nullptr || get_device(index, &device) != 0) {
      return result;
    }
    char name[96] = {};
    const auto get_name =
        function<int (*)(Device, char*, unsigned)>("nvmlDeviceGetName");
    if (get_name != nullptr && get_name(device, name, sizeof(name)) == 0) {
      result.name = name;
    }
    Memory memory{};
    const auto get_memory =
        function<int (*)(Device, Memory*)>("nvmlDeviceGetMemoryInfo");
    if (get_memory != nullptr && get_memory(device, &memory) == 0) {
      result.memory_bytes = static_cast<std::int64_t>(memory.total);
    }
    Pci pci{};
    const auto get_pci =
        function<int (*)(Device, Pci*)>("nvmlDeviceGetPciInfo_v3");
    if (get_pci != nullptr && get_pci(device, &pci) == 0) {
      // /sys uses four digits for the domain, NVML eight.
      const std::string address = lower(pci.address);
      result.pci_address = address.size() > 12 ? address.substr(4) : address;
    }
    return result;
  }

  void* library_ = nullptr;
  bool ready_ = false;
};

// Without NVML, the driver still lists its GPUs in /proc.
std::vector<Gpu> gpus_from_proc() {
  std::vector<Gpu> gpus;
  std::error_code error;
  std::set<std::filesystem::path> folders;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", error)) {
    folders.insert(entry.path());
  }
  for (const auto& folder : folders) {
    const std::string text = slurp((folder / "information").string());
    gpus.push_back({field(text, "Model"), 0, folder.filename().string()});
  }
  return gpus;
}

// Stops at the first unknown GPU in CUDA_VISIBLE_DEVICES, as CUDA does.
std::vector<Gpu> visible(
    std::vector<Gpu> gpus, const Environment& environment) {
  const auto& variables = environment.variables();
  const auto found = variables.find("CUDA_VISIBLE_DEVICES");
  if (found == variables.end()) {
    return gpus;
  }
  std::vector<Gpu> result;
  for (const std::string& entry : split(found->second, ',')) {
    const std::string id(trim(entry));
    const auto index = parse_integer(id);
    const bool is_uuid = id.starts_with("GPU-") || id.starts_with("MIG-");
    if (is_uuid) {
      result.push_back({"NVIDIA GPU", 0, ""});
    } else if (
        index && *index >= 0 &&
        *index < static_cast<std::int64_t>(gpus.size())) {
      result.push_back(gpus[static_cast<std::size_t>(*index)]);
    } else {
      break;
    }
  }
  return result;
}

std::string system_name() {
  utsname names{};
  ::uname(&names);
  std::string text =
      str_cat(names.sysname, " ", names.release, " ", names.machine);
  const std::string pretty = field(slurp("/etc/os-release"), "PRETTY_NAME");
  return pretty.empty() ? text
                        : str_cat(text, ", ", replace_all(pretty, "\"", ""));
}

}  // namespace

std::vector<int> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  for (const std::string& part : split(trim(text), ',')) {
    const auto ends = split(part, '-');
    const auto first = parse_integer(ends[0]);
    const auto last = parse_integer(ends.back());
    if (!first || !last || *first < 0 || *last >= CPU_SETSIZE) {
      continue;
    }
    for (std::int64_t cpu = *first; cpu <= *last; ++cpu) {
      cpus.push_back(static_cast<int>(cpu));
    }
  }
  return cpus;
}

std::string hostname() {
  char name[256] = {};
  ::gethostname(name, sizeof(name) - 1);
  return name;
}

Hardware detect_hardware(const Environment& environment) {
  Hardware hardware;
  hardware.cpus = allowed_cpus();
  hardware.cores = count_cores(hardware.cpus);
  if (const auto quota = cpu_quota()) {
    const auto limit = static_cast<std::int64_t>(std::ceil(*quota));
    hardware.cores = std::clamp<std::int64_t>(
        hardware.cores, 1, std::max<std::int64_t>(1, limit));
  }
  hardware.memory_bytes = static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) *
                          ::sysconf(_SC_PAGESIZE);
  hardware.cpu_name = field(slurp("/proc/cpuinfo"), "model name");
  hardware.hostname = hostname();
  hardware.system = system_name();
  // Without a driver, NVML cannot work, so the search of the library path is
  // skipped.
  if (std::filesystem::exists("/dev/nvidiactl") ||
      std::filesystem::exists("/dev/dxg")) {
    const Nvml nvml;
    auto gpus = nvml.is_ready() ? nvml.gpus() : gpus_from_proc();
    hardware.driver_version = nvml.is_ready() ? nvml.driver_version() : "";
    hardware.gpus = visible(std::move(gpus), environment);
  }
  return hardware;
}

std::string describe_gpus(const std::vector<Gpu>& gpus) {
  if (gpus.empty()) {
    return "no GPU";
  }
  const bool same_model =
      std::all_of(gpus.begin(), gpus.end(), [&](const Gpu& gpu) {
        return gpu.name == gpus[0].name;
      });
  if (same_model && !gpus[0].name.empty()) {
    return str_cat(gpus.size(), " × ", gpus[0].name);
  }
  return str_cat(gpus.size(), gpus.size() == 1 ? " GPU" : " GPUs");
}

}  // namespace accelerate
