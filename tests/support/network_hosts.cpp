// SPDX-License-Identifier: Apache-2.0
#include "support/network_hosts.h"

#include <unistd.h>

#include "support/command.h"

namespace accelerate::test {
namespace {

CommandResult run_shell(const std::string& line) {
  CommandOptions options;
  options.words = {"/bin/sh", "-c", line};
  options.environment = {{"PATH", "/usr/sbin:/sbin:/usr/bin:/bin"}};
  return run_command(options);
}

}  // namespace

NetworkHosts::NetworkHosts(int count) : count_(count) {
  const std::string bridge = name("sw");
  const CommandResult allowed = run_shell(
      "ip netns add " + bridge +
      " && unshare --uts --pid --fork --kill-child --mount-proc true");
  if (allowed.exit_code != 0) {
    problem_ = "network namespaces are not allowed here: " + allowed.err;
    count_ = -1;
    return;
  }
  std::string script = "set -e; ip -n " + bridge +
                       " link add name switch type bridge; ip -n " + bridge +
                       " link set switch up; ";
  for (int i = 0; i < count; ++i) {
    const std::string host = name(std::to_string(i));
    const std::string port = "p" + std::to_string(i);
    script += "ip netns add " + host + "; ip -n " + host +
              " link add eth0 type veth peer name " + port + " netns " +
              bridge + "; ip -n " + bridge + " link set " + port +
              " master switch up; ip -n " + host + " addr add " + address(i) +
              "/24 dev eth0; ip -n " + host + " link set eth0 up; ip -n " +
              host + " link set lo up; ";
  }
  const CommandResult made = run_shell(script);
  if (made.exit_code != 0) {
    problem_ = "no virtual switch here: " + made.err;
  }
}

NetworkHosts::~NetworkHosts() {
  std::string script;
  for (int i = 0; i < count_; ++i) {
    script += "ip netns del " + name(std::to_string(i)) + " 2>/dev/null; ";
  }
  if (count_ >= 0) {
    run_shell(script + "ip netns del " + name("sw"));
  }
}

std::string NetworkHosts::on(int index, const std::string& names) const {
  const std::string number = std::to_string(index);
  return "/usr/sbin/ip netns exec " + name(number) +
         " unshare --uts --pid --fork --kill-child --mount-proc /bin/sh -c "
         "'hostname node-" +
         number + "; " +
         (names.empty() ? "" : "mount --bind " + names + " /etc/hosts; ") +
         "exec \"$@\"' sh ";
}

std::string NetworkHosts::address(int index) {
  return "10.77.0." + std::to_string(index + 1);
}

void NetworkHosts::set_link(int index, bool up) const {
  run_shell(
      "ip -n " + name("sw") + " link set p" + std::to_string(index) +
      (up ? " up" : " down"));
}

std::string NetworkHosts::name(const std::string& part) const {
  return "acc" + std::to_string(::getpid()) + "-" + part;
}

}  // namespace accelerate::test
