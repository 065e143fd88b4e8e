// SPDX-License-Identifier: Apache-2.0
#include "support/listening.h"

#include <filesystem>
#include <fstream>
#include <sstream>

namespace accelerate {
namespace {

// The inodes of the sockets that a process has open.
std::set<std::string> sockets_of(const std::string& process) {
  std::set<std::string> inodes;
  const auto folder = "/proc/" + process + "/fd";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::error_code ignored;
    const std::string target =
        std::filesystem::read_symlink(entry.path(), ignored).string();
    if (target.starts_with("socket:[")) {
      inodes.insert(target.substr(8, target.size() - 9));
    }
  }
  return inodes;
}

}  // namespace

std::multiset<std::string> listening_addresses(const std::string& process) {
  const std::set<std::string> inodes = sockets_of(process);
  std::multiset<std::string> addresses;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);  // The header.
    while (std::getline(file, line)) {
      std::istringstream fields(line);
      std::string number, local, remote, state, skip, inode;
      fields >> number >> local >> remote >> state;
      for (int i = 0; i < 5; ++i) {
        fields >> skip;
      }
      fields >> inode;
      constexpr const char* kListens = "0A";
      if (state == kListens && inodes.contains(inode)) {
        addresses.insert(local.substr(0, local.find(':')));
      }
    }
  }
  return addresses;
}

}  // namespace accelerate
