// SPDX-License-Identifier: Apache-2.0
#include "support/hub_server.h"

#include <array>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <stdexcept>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <openssl/sha.h>

#include "base/str_cat.h"

namespace accelerate::test {
namespace {

Json with_defaults(const std::filesystem::path& log, const Json& scenario) {
  Json result = Json::object(
      {{"name", "org/model"},
       {"commit", HubServer::kCommit},
       {"log", log.string()},
       {"files",
        Json::object(
            {{"config.json", "{\"model_type\": \"bert\"}"},
             {"tokenizer.json", "{}"},
             {"README.md", "nothing"},
             {"model.safetensors", Json::object({{"size", 100'000}})}})}});
  for (const auto& [name, value] : scenario.as_object()) {
    result[name] = value;
  }
  return result;
}

/// Reads the first line that the child writes, with a timeout of ten seconds.
std::string read_line(int fd) {
  std::string line;
  char byte = 0;
  pollfd ready{fd, POLLIN, 0};
  while (::poll(&ready, 1, 10'000) == 1 && ::read(fd, &byte, 1) == 1) {
    if (byte == '\n') {
      return line;
    }
    line += byte;
  }
  throw std::runtime_error("hub_server.py did not start");
}

}  // namespace

HubServer::HubServer(const std::filesystem::path& folder, const Json& scenario)
    : log_(folder / "requests.log") {
  const std::string text = with_defaults(log_, scenario).dump();
  std::array<int, 2> in{};
  std::array<int, 2> out{};
  if (::pipe2(in.data(), O_CLOEXEC) != 0 ||
      ::pipe2(out.data(), O_CLOEXEC) != 0) {
    throw std::runtime_error("cannot create a pipe");
  }
  UniqueFd child_in(in[0]);
  input_.reset(in[1]);
  UniqueFd output(out[0]);
  UniqueFd child_out(out[1]);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(child_in.get(), STDIN_FILENO);
    ::dup2(child_out.get(), STDOUT_FILENO);
    ::execlp(
        "python3", "python3", ACCELERATE_HUB_SERVER, text.c_str(), nullptr);
    ::_exit(127);
  }
  child_out.reset();
  std::sscanf(  // NOLINT(cert-err34-c): the text comes from the test server.
      read_line(output.get()).c_str(),
      "%d %d",
      &port_,
      &second_port_);
}

HubServer::~HubServer() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

std::string HubServer::endpoint() const {
  return str_cat("http://127.0.0.1:", port_);
}

std::vector<Json> HubServer::requests(const std::string& part) const {
  std::vector<Json> requests;
  std::ifstream file(log_);
  for (std::string line; std::getline(file, line);) {
    Json request = Json::parse(line);
    if (request.at("path").as_string().find(part) != std::string::npos) {
      requests.push_back(std::move(request));
    }
  }
  return requests;
}

std::string large_file(const std::string& name, std::size_t size) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> block{};
  ::SHA256(
      reinterpret_cast<const unsigned char*>(name.data()),
      name.size(),
      block.data());
  std::string content;
  while (content.size() < size) {
    content.append(reinterpret_cast<const char*>(block.data()), block.size());
  }
  content.resize(size);
  return content;
}

}  // namespace accelerate::test
