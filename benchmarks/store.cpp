// SPDX-License-Identifier: Apache-2.0
// Times the frames and the requests of the launcher's store.
//
//     build/bin/benchmarks/store [--json] [--quick]
#include <filesystem>
#include <string>
#include <vector>

#include <unistd.h>

#include "base/store_client.h"
#include "base/store_session.h"
#include "base/str_cat.h"
#include "launch/store_server.h"
#include "support/arguments.h"
#include "support/report.h"

namespace accelerate::benchmarks {
namespace {

constexpr double kMicro = 1e6;

// Seals and opens frames with `bytes` of payload.
void bench_frames(const Report& report, std::size_t bytes, int repeats) {
  constexpr int kFrames = 1000;
  const Digest key = hkdf_sha256("secret", "salt", "requests");
  store::FrameSealer sealer(key);
  store::FrameOpener opener(key);
  const std::string payload(bytes, 'x');
  std::vector<std::string> frames(kFrames);
  const double seal = seconds_of(repeats, [&] {
    for (std::string& frame : frames) {
      frame = sealer.seal(1, payload);
    }
  });
  store::FrameSealer again(key);
  const double both = seconds_of(repeats, [&] {
    for (int i = 0; i < kFrames; ++i) {
      const std::string frame = again.seal(1, payload);
      if (!opener.open(
              frame.substr(0, store::kHeaderBytes),
              frame.substr(store::kHeaderBytes))) {
        ::_exit(1);
      }
    }
  });
  const auto add = [&](const char* action, double seconds) {
    report.measure(
        str_cat(action, " a frame of ", bytes, " bytes"),
        seconds / kFrames * kMicro,
        "us");
  };
  add("seal", seal);
  add("seal and open", both);
}

void bench_requests(const Report& report, bool is_unix, int repeats) {
  constexpr int kRequests = 200;
  const auto folder = std::filesystem::temp_directory_path() /
                      str_cat("store-bench-", ::getpid());
  std::filesystem::create_directories(folder);
  const Endpoint endpoint = is_unix
                                ? Endpoint{true, (folder / "store").string(), 0}
                                : Endpoint{false, "127.0.0.1", 0};
  const StoreServer server({.endpoints = {endpoint}, .secret = "secret"});
  StoreClientOptions options;
  options.endpoint = server.endpoint(0);
  options.secret = "secret";
  const char* const name = is_unix ? "a Unix socket" : "loopback TCP";
  report.measure(
      str_cat("connect over ", name),
      seconds_of(repeats, [&] { StoreClient client(options); }) * kMicro,
      "us");
  StoreClient client(options);
  const double seconds = seconds_of(repeats, [&] {
    for (int i = 0; i < kRequests; ++i) {
      client.set("key", "value");
    }
  });
  report.measure(
      str_cat("`set` over ", name), seconds / kRequests * kMicro, "us");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace accelerate::benchmarks

int main(int argc, char** argv) {
  using namespace accelerate::benchmarks;
  check_arguments(
      argc,
      argv,
      {.text = "store [--json] [--quick]\n\n"
               "Times the frames and the requests of the launcher's store."});
  const Report report(has_flag(argc, argv, "--json"));
  const int repeats = has_flag(argc, argv, "--quick") ? 5 : 51;
  for (const std::size_t bytes : {100, 4096, 1 << 20}) {
    bench_frames(report, bytes, repeats);
  }
  bench_requests(report, true, repeats);
  bench_requests(report, false, repeats);
  return 0;
}
