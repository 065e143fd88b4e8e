// SPDX-License-Identifier: Apache-2.0
#include "jupyter/kernel.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <deque>
#include <utility>
#include <vector>

#include <zmq.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "jupyter/cell_output.h"
#include "jupyter/cell_text.h"
#include "jupyter/completion.h"
#include "jupyter/interpreter_process.h"
#include "jupyter/replies.h"

namespace accelerate::jupyter {
namespace {

using Clock = std::chrono::steady_clock;

// How long an interrupted cell may take to return from library code.
constexpr std::chrono::seconds kInterruptTimeout{5};
constexpr std::size_t kMaxHistory = 1000;

std::atomic<bool> interrupt_received{false};
void on_interrupt(int /*signal*/) {
  interrupt_received.store(true);
}

std::string string_field(const Json& content, std::string_view name) {
  const Json* const found = content.find(name);
  return found != nullptr && found->is_string() ? found->as_string() : "";
}

bool bool_field(
    const Json& content, std::string_view name, bool default_value) {
  const Json* const found = content.find(name);
  return found != nullptr && found->is_bool() ? found->as_bool()
                                              : default_value;
}

// An output stream of the interpreter, forwarded as it arrives.
struct Stream {
  std::string name;
  CellOutput output = {};
  // The output that shows the stream's progress bar; empty without a bar.
  std::string display = {};
};

}  // namespace

class Kernel::Impl {
 public:
  Impl(const Connection& connection, InterpreterSetup setup)
      : sockets_(connection), setup_(std::move(setup)), session_(make_id()) {
    start_interpreter();
  }

  int run() {
    while (!ended_) {
      wait();
      if (interrupt_received.exchange(false)) {
        interrupt();
      }
      answer(Channel::control);
      if (running_) {
        watch_cell();
      }
      // The next request waits until the cell has finished.
      if (!running_) {
        answer(Channel::shell);
      }
    }
    return 0;
  }

 private:
  void wait() {
    std::array<zmq_pollitem_t, 6> items = {{
        {sockets_.handle(Channel::control), 0, ZMQ_POLLIN, 0},
        {sockets_.handle(Channel::heartbeat), 0, ZMQ_POLLIN, 0},
        {sockets_.handle(Channel::shell), 0, ZMQ_POLLIN, 0},
        {nullptr, interpreter_->replies(), ZMQ_POLLIN, 0},
        {nullptr, interpreter_->output(), ZMQ_POLLIN, 0},
        {nullptr, interpreter_->errors(), ZMQ_POLLIN, 0},
    }};
    if (running_) {
      // Moves the shell past the first `count` items, so that it is not polled.
      std::swap(items[2], items[5]);
    }
    const int count = running_ ? 5 : 3;
    zmq_poll(items.data(), count, time_left());
    if ((items[1].revents & ZMQ_POLLIN) != 0) {
      sockets_.echo_heartbeat();
    }
  }

  // Milliseconds until an interrupted cell is killed.
  long time_left() const {
    if (!kill_at_) {
      return 1000;
    }
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(*kill_at_ - Clock::now());
    return std::max<long>(0, left.count());
  }

  // ---- requests -----------------------------------------------------------

  void answer(Channel channel) {
    while (!running_ || channel == Channel::control) {
      auto message = sockets_.receive(channel);
      if (!message) {
        return;
      }
      handle(channel, *message);
      if (ended_) {
        return;
      }
    }
  }

  void handle(Channel channel, const Message& message) {
    // While a cell runs, the client keeps seeing the state of the cell.
    const bool during_cell = running_;
    const std::string type = message.type();
    if (!during_cell) {
      parent_ = message;
      publish("status", Json::object({{"execution_state", "busy"}}));
    }
    try {
      if (type == "execute_request" && !during_cell) {
        execute(message);
      } else {
        reply(channel, message, content_for(type, message.content));
      }
    } catch (const Error& error) {
      reply(
          channel,
          message,
          CellError{"Error", error.what(), {error.what()}}.content());
    }
    if (!during_cell && !running_) {
      publish("status", Json::object({{"execution_state", "idle"}}));
    }
  }

  Json content_for(const std::string& type, const Json& content) {
    if (type == "kernel_info_request") {
      return kernel_info();
    }
    if (type == "is_complete_request") {
      return is_complete(string_field(content, "code"));
    }
    if (type == "complete_request") {
      return completions(content);
    }
    if (type == "history_request") {
      return history();
    }
    if (type == "comm_info_request") {
      return Json::object({{"status", "ok"}, {"comms", Json::object()}});
    }
    if (type == "inspect_request") {
      return Json::object(
          {{"status", "ok"},
           {"found", false},
           {"data", Json::object()},
           {"metadata", Json::object()}});
    }
    if (type == "interrupt_request") {
      interrupt();
      return Json::object({{"status", "ok"}});
    }
    if (type == "shutdown_request") {
      ended_ = true;
      return Json::object(
          {{"status", "ok"},
           {"restart", bool_field(content, "restart", false)}});
    }
    throw ArgumentError(str_cat("this kernel does not support `", type, "`"));
  }

  Json completions(const Json& content) {
    const std::string code = string_field(content, "code");
    const Json* const position = content.find("cursor_pos");
    const auto cursor =
        position == nullptr
            ? code.size()
            : byte_position(
                  code, static_cast<std::size_t>(position->as_integer()));
    const Completion found = complete(setup_, cells_, code, cursor);
    return Json::object(
        {{"status", "ok"},
         {"matches", Json(found.matches)},
         {"cursor_start", character_position(code, found.begin)},
         {"cursor_end", character_position(code, found.end)},
         {"metadata", Json::object()}});
  }

  Json history() const {
    Json entries = Json::array();
    for (const auto& [number, code] : history_) {
      entries.push_back(Json::array({Json(0), Json(number), Json(code)}));
    }
    return Json::object({{"status", "ok"}, {"history", std::move(entries)}});
  }

  void reply(Channel channel, const Message& request, Json content) {
    std::string type = request.type();
    const auto end = type.rfind("_request");
    type = type.substr(0, end) + "_reply";
    sockets_.send(
        channel,
        {request.identities,
         make_header(type, session_),
         request.header,
         Json::object(),
         std::move(content)});
  }

  void publish(const std::string& type, Json content) {
    sockets_.send(
        Channel::iopub,
        {{type},
         make_header(type, session_),
         parent_.header,
         Json::object(),
         std::move(content)});
  }

  // ---- cells --------------------------------------------------------------

  void execute(const Message& message) {
    const std::string code = string_field(message.content, "code");
    silent_ = bool_field(message.content, "silent", false);
    stop_on_error_ = bool_field(message.content, "stop_on_error", true);
    if (!silent_) {
      ++count_;
      publish(
          "execute_input",
          Json::object({{"code", code}, {"execution_count", count_}}));
      if (bool_field(message.content, "store_history", true)) {
        remember(code);
      }
    }
    const std::string name = str_cat("In[", count_, "]");
    code_ = str_cat("#line 1 \"", name, "\"\n", with_display(code, name), "\n");
    running_ = true;
    interpreter_->run(code_);
  }

  void remember(const std::string& code) {
    history_.emplace_back(count_, code);
    if (history_.size() > kMaxHistory) {
      history_.pop_front();
    }
  }

  void watch_cell() {
    // Checks for the reply first, so that all earlier output is forwarded
    // before the reply.
    const bool has_reply = is_readable(interpreter_->replies());
    forward(interpreter_->output(), output_);
    forward(interpreter_->errors(), errors_);
    if (!has_reply) {
      kill_if_late();
      return;
    }
    const auto reply_packet = interpreter_->read_reply();
    if (!reply_packet) {
      handle_interpreter_exit();
    } else if (reply_packet->kind != "started") {
      forward(interpreter_->output(), output_);
      forward(interpreter_->errors(), errors_);
      end_cell(*reply_packet);
    }
  }

  static bool is_readable(int fd) {
    zmq_pollitem_t item = {nullptr, fd, ZMQ_POLLIN, 0};
    return zmq_poll(&item, 1, 0) > 0;
  }

  void forward(int fd, Stream& stream) {
    std::array<char, 65536> buffer;
    for (;;) {
      const ssize_t n = ::read(fd, buffer.data(), buffer.size());
      if (n <= 0) {
        return;
      }
      show(
          stream.output.add({buffer.data(), static_cast<std::size_t>(n)}),
          stream);
    }
  }

  void show(const std::vector<OutputPiece>& pieces, Stream& stream) {
    for (const OutputPiece& piece : pieces) {
      switch (piece.kind) {
        case OutputPiece::Kind::text:
          publish_output(
              "stream",
              Json::object({{"name", stream.name}, {"text", piece.text}}));
          break;
        case OutputPiece::Kind::bar:
          show_bar(piece.text, stream);
          break;
        case OutputPiece::Kind::bar_end:
          stream.display.clear();
          break;
      }
    }
  }

  void show_bar(const std::string& state, Stream& stream) {
    const bool is_new = stream.display.empty();
    if (is_new) {
      stream.display = make_id();
    }
    publish_output(
        is_new ? "display_data" : "update_display_data",
        Json::object(
            {{"data", Json::object({{"text/plain", state}})},
             {"metadata", Json::object()},
             {"transient", Json::object({{"display_id", stream.display}})}}));
  }

  void publish_output(const std::string& type, Json content) {
    if (!silent_) {
      publish(type, std::move(content));
    }
  }

  void end_cell(const Packet& result) {
    if (result.kind != "compile" && result.kind != "link") {
      cells_.push_back(code_);
    }
    if (result.kind == "ok") {
      finish(Json::object(
          {{"status", "ok"},
           {"execution_count", count_},
           {"user_expressions", Json::object()},
           {"payload", Json::array()}}));
    } else {
      fail(error_of(result));
    }
  }

  void fail(const CellError& error) {
    if (!silent_) {
      publish("error", error.content());
    }
    Json content = error.content();
    content["execution_count"] = count_;
    // Must run before the reply is sent, because the client may send its next
    // cell after the reply.
    const std::vector<Message> queued =
        stop_on_error_ ? receive_queued() : std::vector<Message>{};
    finish(std::move(content));
    for (const Message& message : queued) {
      abort_or_handle(message);
    }
  }

  std::vector<Message> receive_queued() {
    std::vector<Message> queued;
    while (auto message = sockets_.receive(Channel::shell)) {
      queued.push_back(std::move(*message));
    }
    return queued;
  }

  // Aborts a cell that was queued after a failed cell; handles other requests.
  void abort_or_handle(const Message& message) {
    if (ended_) {
      return;
    }
    if (message.type() != "execute_request") {
      handle(Channel::shell, message);
      return;
    }
    parent_ = message;
    publish("status", Json::object({{"execution_state", "busy"}}));
    reply(Channel::shell, message, Json::object({{"status", "aborted"}}));
    publish("status", Json::object({{"execution_state", "idle"}}));
  }

  void finish(Json content) {
    for (Stream* stream : {&output_, &errors_}) {
      show(stream->output.finish(), *stream);
      stream->display.clear();
    }
    running_ = false;
    kill_at_.reset();
    reply(Channel::shell, parent_, std::move(content));
    publish("status", Json::object({{"execution_state", "idle"}}));
  }

  void handle_interpreter_exit() {
    const bool was_interrupted = kill_at_.has_value();
    const std::string exit_status = interpreter_->describe_exit();
    forward(interpreter_->output(), output_);
    forward(interpreter_->errors(), errors_);
    cells_.clear();
    start_interpreter();
    fail(interpreter_died(exit_status, was_interrupted));
  }

  void start_interpreter() {
    interpreter_ = std::make_unique<InterpreterProcess>(setup_);
  }

  // ---- interrupts ---------------------------------------------------------

  void interrupt() {
    if (running_) {
      interpreter_->interrupt();
      kill_at_ = Clock::now() + kInterruptTimeout;
    }
  }

  void kill_if_late() {
    if (kill_at_ && Clock::now() >= *kill_at_) {
      interpreter_->kill();
    }
  }

  Sockets sockets_;
  InterpreterSetup setup_;
  std::string session_;
  std::unique_ptr<InterpreterProcess> interpreter_;
  Stream output_{"stdout"};
  Stream errors_{"stderr"};

  Message parent_;  // The request that is being handled.
  bool ended_ = false;
  bool running_ = false;
  bool silent_ = false;
  bool stop_on_error_ = true;
  std::int64_t count_ = 0;
  std::string code_;
  std::vector<std::string> cells_;  // The earlier cells, for completion.
  std::deque<std::pair<std::int64_t, std::string>> history_;
  std::optional<Clock::time_point> kill_at_;
};

Kernel::Kernel(const Connection& connection, InterpreterSetup setup) {
  std::signal(SIGPIPE, SIG_IGN);
  struct sigaction action{};
  action.sa_handler = on_interrupt;
  ::sigaction(SIGINT, &action, nullptr);
  impl_ = std::make_unique<Impl>(connection, std::move(setup));
}
Kernel::~Kernel() = default;

int Kernel::run() {
  return impl_->run();
}

}  // namespace accelerate::jupyter
