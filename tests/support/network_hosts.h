// SPDX-License-Identifier: Apache-2.0
// Hosts with addresses, names and processes of their own, as namespaces on one
// switch. What is common to them is the file system.
#pragma once

#include <string>

namespace accelerate::test {

class NetworkHosts {
 public:
  /// Needs root and iproute2; `problem()` says what is missing.
  explicit NetworkHosts(int count);
  NetworkHosts(const NetworkHosts&) = delete;
  NetworkHosts& operator=(const NetworkHosts&) = delete;
  ~NetworkHosts();

  const std::string& problem() const { return problem_; }
  /// What goes before a command so that it runs on host `index`, with
  /// `names` as its /etc/hosts.
  std::string on(int index, const std::string& names = "") const;
  static std::string address(int index);
  /// Takes the plug out, or puts it back.
  void set_link(int index, bool up) const;

 private:
  std::string name(const std::string& part) const;

  int count_;
  std::string problem_;
};

}  // namespace accelerate::test
