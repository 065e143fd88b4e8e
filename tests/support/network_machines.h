// SPDX-License-Identifier: Apache-2.0
// Simulated machines with their own addresses, hostnames and processes: Linux
// namespaces on one virtual switch. The machines share the file system.
#pragma once

#include <string>

namespace accelerate::test {

class NetworkMachines {
 public:
  /// Creates `count` machines. Needs root privileges and iproute2. `problem`
  /// returns the error if creating the machines failed, else an empty string.
  explicit NetworkMachines(int count);
  NetworkMachines(const NetworkMachines&) = delete;
  NetworkMachines& operator=(const NetworkMachines&) = delete;
  ~NetworkMachines();

  const std::string& problem() const { return problem_; }
  /// Returns the prefix that makes a command run on machine `index`. If
  /// `names_file` is not empty, it replaces /etc/hosts on that machine.
  std::string on(int index, const std::string& names_file = "") const;
  static std::string address(int index);
  /// Connects machine `index` to the network if `up` is true, else disconnects
  /// it.
  void set_link(int index, bool up) const;

 private:
  std::string name(const std::string& part) const;

  int count_;
  std::string problem_;
};

}  // namespace accelerate::test
