// SPDX-License-Identifier: Apache-2.0
#include "launch/failure_json.h"

#include "base/text.h"

namespace accelerate {

Json failure_to_json(const Failure& failure) {
  Json early_exits = Json::array();
  for (const Failure::EarlyExit& exit : failure.early_exits) {
    early_exits.push_back(
        Json::object({{"rank", exit.rank}, {"seconds", exit.seconds}}));
  }
  return Json::object(
      {{"rank", failure.rank},
       {"hostname", failure.hostname},
       {"pid", failure.pid},
       {"exit_code", failure.exit_code},
       {"signal", failure.signal},
       {"seconds", failure.seconds},
       {"num_processes", failure.num_processes},
       {"others_stopped", failure.others_stopped},
       {"others_failed", failure.others_failed},
       {"early_exits", early_exits},
       {"step", failure.step ? Json(*failure.step) : Json()},
       {"status", failure.status},
       {"exception", failure.exception},
       {"last_lines", failure.last_lines},
       {"oom_kill", failure.oom_kill ? Json(*failure.oom_kill) : Json()},
       {"log_path", failure.log_path},
       {"interrupt", failure.interrupt},
       {"disconnected_machine", failure.disconnected_machine}});
}

Failure failure_from_json(const Json& json) {
  Failure failure;
  failure.rank = json.at("rank").as_integer();
  // Control characters in a name could change the report.
  failure.hostname = printable(json.at("hostname").as_string());
  failure.pid = static_cast<pid_t>(json.at("pid").as_integer());
  failure.exit_code = static_cast<int>(json.at("exit_code").as_integer());
  failure.signal = static_cast<int>(json.at("signal").as_integer());
  failure.seconds = json.at("seconds").as_double();
  failure.num_processes = json.at("num_processes").as_integer();
  failure.others_stopped = json.at("others_stopped").as_integer();
  failure.others_failed = json.at("others_failed").as_integer();
  for (const Json& exit : json.at("early_exits").as_array()) {
    failure.early_exits.push_back(
        {exit.at("rank").as_integer(), exit.at("seconds").as_double()});
  }
  if (const Json* step = json.find("step");
      step != nullptr && !step->is_null()) {
    failure.step = step->as_integer();
  }
  failure.status = json.at("status").as_string();
  failure.exception = json.at("exception").as_string();
  for (const Json& line : json.at("last_lines").as_array()) {
    failure.last_lines.push_back(line.as_string());
  }
  if (!json.at("oom_kill").is_null()) {
    failure.oom_kill = json.at("oom_kill").as_bool();
  }
  failure.log_path = printable(json.at("log_path").as_string());
  failure.interrupt = static_cast<int>(json.at("interrupt").as_integer());
  failure.disconnected_machine = json.at("disconnected_machine").as_string();
  return failure;
}

}  // namespace accelerate
