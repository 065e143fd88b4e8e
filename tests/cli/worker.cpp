// SPDX-License-Identifier: Apache-2.0
// A worker that misbehaves in the way that its first argument selects.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

long rank() {
  return std::strtol(variable("ACCELERATE_STORE_RANK").c_str(), nullptr, 10);
}

// Sleeps longer than any test takes, but not much longer.
[[noreturn]] void hang() {
  std::this_thread::sleep_for(std::chrono::seconds(60));
  std::exit(99);
}

void touch(const std::string& path) {
  std::ofstream(path) << ::getpid() << "\n";
}

void wait_for_file(const std::string& path) {
  struct stat info{};
  for (int i = 0; i < 6000 && ::stat(path.c_str(), &info) != 0; ++i) {
    ::usleep(5000);
  }
}

void print_lines(long count) {
  const std::string text(70, static_cast<char>('a' + rank() % 26));
  for (long i = 0; i < count; ++i) {
    std::cout << rank() << ":" << text << "\n";
  }
}

void print_binary() {
  std::string bytes;
  for (int i = 0; i < 256; ++i) {
    bytes += static_cast<char>(i);
  }
  std::cout << bytes;
}

void print_megabytes(long megabytes) {
  const std::string line(1023, 'x');
  for (long i = 0; i < megabytes * 1024; ++i) {
    std::cout << line << "\n";
  }
}

// Writes to the memory, so that the system really allocates it.
void allocate_megabytes(long megabytes) {
  std::vector<std::vector<char>> blocks;
  for (long i = 0; i < megabytes; ++i) {
    blocks.emplace_back(1 << 20, static_cast<char>(i + 1));
  }
  std::cout << blocks.size() << " MB\n";
}

void ignore_sigterm() {
  std::signal(SIGTERM, SIG_IGN);
}

// Opens MASTER_PORT, as rank 0 of a program does, and keeps it open.
int serve_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  const int yes = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(
      std::strtol(variable("MASTER_PORT").c_str(), nullptr, 10)));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      ::listen(fd, 8) != 0) {
    std::perror("port");
    return 1;
  }
  ::usleep(100000);
  return 0;
}

// Forks a child that would outlive this process, and writes its PID to a file.
void leave_child(const std::string& path, bool new_session) {
  if (::fork() == 0) {
    if (new_session) {
      ::setsid();
    }
    touch(path);
    hang();
  }
  wait_for_file(path);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const std::string text = argc > 2 ? argv[2] : "";
  const long number = std::strtol(text.c_str(), nullptr, 10);
  const bool fails =
      variable("FAILS").empty() || std::to_string(rank()) == variable("FAILS");
  if (mode == "print") {
    std::cout << "rank " << rank() << " of " << variable("WORLD_SIZE") << "\n";
  } else if (mode == "lines") {
    print_lines(number);
  } else if (mode == "binary") {
    print_binary();
  } else if (mode == "megabytes") {
    print_megabytes(number);
  } else if (mode == "env") {
    std::cout << variable(text.c_str()) << "\n";
  } else if (mode == "port") {
    return rank() == 0 ? serve_port() : 0;
  } else if (mode == "cat") {
    std::cout << std::cin.rdbuf();
  } else if (mode == "exit") {
    if (fails) {
      return static_cast<int>(number);
    }
    hang();
  } else if (mode == "throw") {
    if (fails) {
      throw std::runtime_error("the data set is empty");
    }
    hang();
  } else if (mode == "segv") {
    if (fails) {
      std::raise(SIGSEGV);
    }
    hang();
  } else if (mode == "kill") {
    if (fails) {
      std::raise(SIGKILL);
    }
    hang();
  } else if (mode == "eat") {
    if (fails) {
      allocate_megabytes(number);
      return 98;
    }
    hang();
  } else if (mode == "stubborn") {
    ignore_sigterm();
    touch(text + std::to_string(rank()));
    if (fails) {
      wait_for_file(text + "0");
      wait_for_file(text + "1");
      return 5;
    }
    hang();
  } else if (mode == "hang") {
    touch(text + std::to_string(rank()));
    hang();
  } else if (mode == "fork") {
    leave_child(text + std::to_string(rank()), false);
    return 0;
  } else if (mode == "fork_hang") {
    leave_child(text + "child" + std::to_string(rank()), true);
    touch(text + std::to_string(rank()));
    hang();
  } else if (mode == "twice") {
    if (variable("ACCELERATE_RESTART_COUNT") == "0" && fails) {
      return 4;
    }
    if (variable("ACCELERATE_RESTART_COUNT") == "0") {
      hang();
    }
    std::cout << "restarted\n";
  } else {
    std::cerr << "unknown mode " << mode << "\n";
    return 64;
  }
  return 0;
}
