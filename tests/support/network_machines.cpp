// SPDX-License-Identifier: Apache-2.0
#include "support/network_machines.h"

#include <unistd.h>

#include "support/command.h"

namespace accelerate::test {
namespace {

CommandResult run_shell(const std::string& line) {
  CommandOptions options;
  options.argv = {"/bin/sh", "-c", line};
  options.environment = {{"PATH", "/usr/sbin:/sbin:/usr/bin:/bin"}};
  return run_command(options);
}

}  // namespace

NetworkMachines::NetworkMachines(int count) : count_(count) {
  const std::string bridge = name("sw");
  const CommandResult result = run_shell(
      "ip netns add " + bridge +
      " && unshare --uts --pid --fork --kill-child --mount-proc true");
  if (result.exit_code != 0) {
    problem_ = "cannot create network namespaces: " + result.err;
    count_ = -1;
    return;
  }
  std::string script = "set -e; ip -n " + bridge +
                       " link add name switch type bridge; ip -n " + bridge +
                       " link set switch up; ";
  for (int i = 0; i < count; ++i) {
    const std::string machine = name(std::to_string(i));
    const std::string port = "p" + std::to_string(i);
    script += "ip netns add " + machine + "; ip -n " + machine +
              " link add eth0 type veth peer name " + port + " netns " +
              bridge + "; ip -n " + bridge + " link set " + port +
              " master switch up; ip -n " + machine + " addr add " +
              address(i) + "/24 dev eth0; ip -n " + machine +
              " link set eth0 up; ip -n " + machine + " link set lo up; ";
  }
  const CommandResult setup = run_shell(script);
  if (setup.exit_code != 0) {
    problem_ = "cannot create a virtual switch: " + setup.err;
  }
}

NetworkMachines::~NetworkMachines() {
  std::string script;
  for (int i = 0; i < count_; ++i) {
    script += "ip netns del " + name(std::to_string(i)) + " 2>/dev/null; ";
  }
  if (count_ >= 0) {
    run_shell(script + "ip netns del " + name("sw"));
  }
}

std::string NetworkMachines::on(
    int index, const std::string& names_file) const {
  const std::string number = std::to_string(index);
  return "/usr/sbin/ip netns exec " + name(number) +
         " unshare --uts --pid --fork --kill-child --mount-proc /bin/sh -c "
         "'hostname node-" +
         number + "; " +
         (names_file.empty() ? ""
                             : "mount --bind " + names_file + " /etc/hosts; ") +
         "exec \"$@\"' sh ";
}

std::string NetworkMachines::address(int index) {
  return "10.77.0." + std::to_string(index + 1);
}

void NetworkMachines::set_link(int index, bool up) const {
  run_shell(
      "ip -n " + name("sw") + " link set p" + std::to_string(index) +
      (up ? " up" : " down"));
}

std::string NetworkMachines::name(const std::string& part) const {
  return "acc" + std::to_string(::getpid()) + "-" + part;
}

}  // namespace accelerate::test
