// SPDX-License-Identifier: Apache-2.0
// Data from port scanners and broken clients on the rendezvous port does not
// affect a running job. Takes a few seconds, or ACCELERATE_GARBAGE_SECONDS.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <iostream>
#include <memory>
#include <random>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/command.h"
#include "support/temporary_directory.h"

namespace accelerate::test {
namespace {

using Random = std::mt19937;

std::string random_text(Random& random, std::size_t length) {
  std::string text(length, '\0');
  for (char& byte : text) {
    byte = static_cast<char>(random() & 0xffU);
  }
  return text;
}

// The data of one connection: greetings of other protocols, the store's own
// magic bytes, frames of absurd lengths, noise, or nothing.
std::string garbage(Random& random) {
  switch (random() % 8) {
    case 0:
      return "GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: scanner\r\n\r\n" +
             std::string(200, 'A');
    case 1:
      return std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) +
             random_text(random, 500);
    case 2:
      return "SSH-2.0-OpenSSH_9.2\r\n";
    case 3:
      return "ACCSTOR2" + random_text(random, 97);
    case 4:
      return std::string("\xff\xff\xff\xff\x01", 5) + random_text(random, 300);
    case 5:
      return random_text(random, 105);
    case 6:
      return random_text(random, random() % 70000);
    default:
      return "";
  }
}

int connect_loopback(int port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval limit{2, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) !=
      0) {
    ::close(fd);
    return -1;
  }
  return fd;
}

// Sends garbage until destroyed; some connections stay open without sending.
class Scanner {
 public:
  Scanner(int port, std::uint32_t seed)
      : port_(port), random_(seed), thread_([this] { run(); }) {}
  Scanner(const Scanner&) = delete;
  Scanner& operator=(const Scanner&) = delete;
  ~Scanner() {
    stop_ = true;
    thread_.join();
    for (const int fd : held_) {
      ::close(fd);
    }
  }

  int sent() const { return sent_; }

 private:
  void run() {
    while (!stop_) {
      const int fd = connect_loopback(port_);
      if (fd < 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        continue;
      }
      const std::string bytes = garbage(random_);
      (void)!::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      ++sent_;
      if (random_() % 4 == 0 && held_.size() < 200) {
        held_.push_back(fd);
      } else {
        ::close(fd);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  int port_;
  Random random_;
  std::vector<int> held_;
  std::atomic<int> sent_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

CommandOptions launch_command(const std::string& options) {
  // The machines of one job share the home folder and the secret in it.
  static const std::string home = fresh_folder();
  CommandOptions command;
  command.argv = {
      "/bin/sh", "-c", "exec " ACCELERATE_CLI " launch --cpu " + options};
  command.environment = {
      {"HOME", home},
      {"PATH", "/usr/bin:/bin"},
      {"CUDA_VISIBLE_DEVICES", ""},
      {"OMP_NUM_THREADS", "1"},
      {"ACCELERATE_JOB_SECRET", "0123456789abcdef0123456789abcdef"},
      {"TRAINING", ACCELERATE_TRAINING}};
  return command;
}

std::ptrdiff_t open_files(pid_t pid) {
  std::error_code error;
  const std::filesystem::directory_iterator all(
      "/proc/" + std::to_string(pid) + "/fd", error);
  return error ? 0 : std::distance(begin(all), end(all));
}

TEST(Garbage, DoesNotAffectARunningJob) {
  const char* variable = std::getenv("ACCELERATE_GARBAGE_SECONDS");
  const int seconds = variable == nullptr ? 3 : std::atoi(variable);
  const int port = 20000 + ::getpid() % 10000;
  const std::string alone = run_command(launch_command("$TRAINING")).out;
  const auto machine = [&](int rank) {
    // The program runs 80 steps.
    auto command = launch_command(
        "--num_machines 2 --num_processes 4 --main_process_ip 127.0.0.1 "
        "--main_process_port " +
        std::to_string(port) + " --machine_rank " + std::to_string(rank) +
        " $TRAINING pause=" + std::to_string(seconds * 1000 / 80));
    command.timeout = std::chrono::seconds(seconds + 60);
    return command;
  };
  // The scanners run from before the second machine joins until the end.
  std::vector<std::unique_ptr<Scanner>> scanners;
  std::future<CommandResult> second;
  std::ptrdiff_t most_files = 0;
  auto first = machine(0);
  first.watch = [&](pid_t pid, const std::string& err) {
    if (scanners.empty() && err.find("Waiting for") != std::string::npos) {
      for (std::uint32_t seed = 0; seed < 4; ++seed) {
        scanners.push_back(std::make_unique<Scanner>(port, seed));
      }
    }
    if (!second.valid() && !scanners.empty() && scanners[0]->sent() > 50) {
      second = std::async(
          std::launch::async, [&] { return run_command(machine(1)); });
    }
    most_files = std::max(most_files, open_files(pid));
    return false;
  };

  const auto result = run_command(first);

  ASSERT_TRUE(second.valid()) << result.err;
  const auto other = second.get();
  int sent = 0;
  for (const auto& scanner : scanners) {
    sent += scanner->sent();
  }
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, alone) << result.err;
  EXPECT_EQ(other.exit_code, 0) << other.err;
  EXPECT_EQ(other.out, alone) << other.err;
  EXPECT_GT(sent, seconds * 20);
  // At most 64 connections from scanners, and at most 64 files for the job.
  EXPECT_LT(most_files, 64 + 64);
  RecordProperty("connections", sent);
  std::cout << sent << " connections with garbage in " << result.seconds
            << " s, at most " << most_files << " open files\n";
}

}  // namespace
}  // namespace accelerate::test
