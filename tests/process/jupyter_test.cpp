// SPDX-License-Identifier: Apache-2.0
// Tests the kernel for C++ notebooks through a client. Most tests use plain
// C++; the last ones need a precompiled header, which takes half a minute.
#include <algorithm>
#include <csignal>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "accelerate/error.h"
#include "base/str_cat.h"
#include "jupyter/interpreter_command.h"
#include "process/jupyter_client.h"

namespace accelerate::jupyter {
namespace {

using testing::HasSubstr;

// Skips the tests if the interpreter is not installed.
class Jupyter : public testing::Test {
 protected:
  void SetUp() override {
    try {
      (void)find_clang_repl(Environment::of_this_process());
    } catch (const UnsupportedError& error) {
      GTEST_SKIP() << error.what();
    }
  }
};

std::string status(const CellResult& result) {
  return result.reply.at("status").as_string();
}

std::string field(const CellResult& result, const char* name) {
  return result.error.is_null() ? "" : result.error.at(name).as_string();
}

std::string traceback(const CellResult& result) {
  return result.error.is_null() ? "" : result.error.at("traceback").dump();
}

std::string text_of(const Json& display) {
  return display.at("data").at("text/plain").as_string();
}

TEST_F(Jupyter, ReportsKernelInfo) {
  JupyterClient client({"--plain"});

  const Json info = client.ask("kernel_info_request", Json::object());

  EXPECT_EQ(info.at("status").as_string(), "ok");
  EXPECT_EQ(info.at("language_info").at("name").as_string(), "C++");
  EXPECT_TRUE(client.heartbeat());
}

TEST_F(Jupyter, CellsShareWhatTheyDefine) {
  JupyterClient client({"--plain"});

  EXPECT_EQ(status(client.run("int twice(int x) {\n  return 2 * x;\n}")), "ok");
  EXPECT_EQ(status(client.run("int value = twice(4);")), "ok");
  const CellResult result = client.run("std::cerr << \"e\";\ntwice(value)");

  EXPECT_EQ(result.output, "16\n");
  EXPECT_EQ(result.errors, "e");
  EXPECT_EQ(result.reply.at("execution_count").as_integer(), 3);
}

TEST_F(Jupyter, ShowsOutputWhileTheCellRuns) {
  JupyterClient client({"--plain"});
  const auto file = client.folder() / "go_on";

  client.begin(str_cat(
      "#include <fstream>\nstd::cout << \"first\" << std::endl;\n"
      "while (!std::ifstream(\"",
      file.string(),
      "\").good()) {}\nstd::cout << \"second\" << std::endl;"));
  client.await_output("first");
  std::ofstream(file) << "go";

  EXPECT_EQ(client.finish().output, "first\nsecond\n");
}

TEST_F(Jupyter, ErrorsNameTheLineOfTheCell) {
  JupyterClient client({"--plain"});
  client.run("int kept = 7;");

  const CellResult result = client.run("int a = 1;\nint b = nothing_here;");

  EXPECT_EQ(status(result), "error");
  EXPECT_EQ(field(result, "ename"), "CompileError");
  EXPECT_EQ(
      field(result, "evalue"),
      "In[2]:2:9: error: use of undeclared identifier 'nothing_here'");
  EXPECT_THAT(
      field(client.run("kept +\n  missing"), "evalue"),
      HasSubstr("In[3]:2:3: error: use of undeclared identifier 'missing'"));
  EXPECT_EQ(client.run("int a = 5;\nkept + a").output, "12\n");
}

TEST_F(Jupyter, ALinkErrorKeepsEarlierCells) {
  JupyterClient client({"--plain"});
  client.run("int kept = 7;");

  EXPECT_EQ(
      field(client.run("int nowhere(int);\nint a = nowhere(1);"), "ename"),
      "LinkError");
  EXPECT_EQ(client.run("kept").output, "7\n");
}

TEST_F(Jupyter, AnExceptionFailsOnlyItsCell) {
  JupyterClient client({"--plain"});

  const CellResult result =
      client.run("int before = 3;\nthrow std::runtime_error(\"too bad\");");

  EXPECT_EQ(field(result, "ename"), "std::runtime_error");
  EXPECT_EQ(field(result, "evalue"), "too bad");
  EXPECT_EQ(client.run("before").output, "3\n");
}

TEST_F(Jupyter, AFailedCellAbortsQueuedCells) {
  JupyterClient client({"--plain"});
  const auto file = client.folder() / "go_on";

  client.begin(str_cat(
      "#include <fstream>\nwhile (!std::ifstream(\"",
      file.string(),
      "\").good()) {}\nthrow std::runtime_error(\"too bad\");"));
  client.begin("int after = 3;");
  std::ofstream(file) << "go";

  // The replies come in the order of the requests.
  EXPECT_EQ(status(client.finish()), "error");
  EXPECT_EQ(
      client.ask("kernel_info_request", Json::object())
          .at("status")
          .as_string(),
      "aborted");
}

TEST_F(Jupyter, TheLastCellCanBeRunAgainWithChanges) {
  JupyterClient client({"--plain"});
  client.run("int first() { return 1; }");
  client.run("int f() { return 1; }");

  EXPECT_EQ(status(client.run("int f() { return 2; }")), "ok");
  EXPECT_EQ(client.run("f()").output, "2\n");
  const CellResult older = client.run("int first() { return 3; }");
  EXPECT_THAT(field(older, "evalue"), HasSubstr("redefinition of 'first'"));
  EXPECT_THAT(
      traceback(older), HasSubstr("hint: a name can be defined only once"));
  EXPECT_EQ(client.run("first()").output, "1\n");
}

TEST_F(Jupyter, InterruptsAnEndlessLoopAndKeepsState) {
  JupyterClient client({"--plain"});
  client.run("int kept = 7;");

  for (const bool by_message : {true, false}) {
    client.begin("std::cout << \"on\" << std::endl;\nwhile (true) {}");
    client.await_output("on");
    if (by_message) {
      (void)client.ask("interrupt_request", Json::object(), true);
    } else {
      ::kill(client.kernel(), SIGINT);
    }
    EXPECT_EQ(field(client.finish(), "ename"), "Interrupted");
  }
  EXPECT_EQ(client.run("kept").output, "7\n");
}

TEST_F(Jupyter, InterruptsASleep) {
  JupyterClient client({"--plain"});

  client.begin(
      "#include <thread>\nstd::cout << \"on\" << std::endl;\n"
      "std::this_thread::sleep_for(std::chrono::hours(1));");
  client.await_output("on");
  (void)client.ask("interrupt_request", Json::object(), true);

  EXPECT_EQ(field(client.finish(), "ename"), "Interrupted");
}

TEST_F(Jupyter, KillsAndReportsACellThatIgnoresInterrupts) {
  JupyterClient client({"--plain"});

  client.begin(
      "#include <csignal>\nstd::signal(SIGINT, SIG_IGN);\n"
      "std::cout << \"on\" << std::endl;\nwhile (true) {}");
  client.await_output("on");
  (void)client.ask("interrupt_request", Json::object(), true);

  const CellResult result = client.finish();
  EXPECT_EQ(field(result, "ename"), "InterpreterDied");
  EXPECT_EQ(
      field(result, "evalue"),
      "the cell did not respond to the interrupt, so the interpreter was "
      "killed (killed by signal 9 (KILL)); all definitions are lost");
}

TEST_F(Jupyter, SurvivesACrashAndReportsTheLostState) {
  JupyterClient client({"--plain"});
  client.run("int kept = 7;");

  const CellResult crash =
      client.run("volatile int* nowhere = nullptr;\n*nowhere = 1;");

  EXPECT_EQ(field(crash, "ename"), "InterpreterDied");
  EXPECT_EQ(
      field(crash, "evalue"),
      "the interpreter died (killed by signal 11 (SEGV)); all definitions are "
      "lost");
  EXPECT_THAT(field(client.run("kept"), "evalue"), HasSubstr("'kept'"));
  EXPECT_EQ(client.run("1 + 1").output, "2\n");
}

TEST_F(Jupyter, CompletesNamesOfEarlierCells) {
  JupyterClient client({"--plain"});
  client.run("int a_long_variable_name = 1;");

  const Json reply = client.ask(
      "complete_request",
      Json::object({{"code", "1 + a_long_v"}, {"cursor_pos", 12}}));

  EXPECT_EQ(reply.at("matches").dump(), R"(["a_long_variable_name"])");
  EXPECT_EQ(reply.at("cursor_start").as_integer(), 4);
  EXPECT_EQ(reply.at("cursor_end").as_integer(), 12);
}

TEST_F(Jupyter, AnswersCompletenessAndHistoryRequests) {
  JupyterClient client({"--plain"});
  client.run("int once = 1;");

  EXPECT_EQ(
      client.ask("is_complete_request", Json::object({{"code", "f(1,"}}))
          .at("status")
          .as_string(),
      "incomplete");
  EXPECT_EQ(
      client.ask("history_request", Json::object()).at("history").dump(),
      R"([[0,1,"int once = 1;"]])");
  EXPECT_EQ(
      client.ask("comm_info_request", Json::object()).at("comms").dump(), "{}");
}

TEST_F(Jupyter, IgnoresRequestsWithAWrongSignature) {
  JupyterClient client({"--plain"});

  client.send_forged("int forged = 1;");

  EXPECT_THAT(field(client.run("forged"), "evalue"), HasSubstr("'forged'"));
}

// The process id of the interpreter, which must exit with the kernel.
pid_t interpreter_of(JupyterClient& client) {
  return std::stoi(client.run("#include <unistd.h>\n::getpid()").output);
}

bool exits_within(pid_t process, std::chrono::seconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (::kill(process, 0) == 0) {
    if (std::chrono::steady_clock::now() >= deadline) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

TEST_F(Jupyter, ShutdownStopsTheInterpreter) {
  JupyterClient client({"--plain"});
  const pid_t interpreter = interpreter_of(client);

  const Json reply =
      client.ask("shutdown_request", Json::object({{"restart", true}}), true);

  EXPECT_TRUE(reply.at("restart").as_bool());
  EXPECT_EQ(client.wait_for_exit(std::chrono::seconds(5)), 0);
  EXPECT_TRUE(exits_within(interpreter, std::chrono::seconds(5)));
}

TEST_F(Jupyter, TheInterpreterExitsWhenTheKernelIsKilled) {
  JupyterClient client({"--plain"});
  const pid_t interpreter = interpreter_of(client);

  ::kill(client.kernel(), SIGKILL);

  EXPECT_TRUE(client.wait_for_exit(std::chrono::seconds(5)));
  EXPECT_TRUE(exits_within(interpreter, std::chrono::seconds(5)));
}

TEST_F(Jupyter, RejectsAnInvalidConnectionFile) {
  const std::string command =
      str_cat(ACCELERATE_KERNEL, " /dev/null 2>/dev/null; test $? -eq 2");
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST_F(Jupyter, TrainsOnWorkersThatRepeatTheCells) {
  JupyterClient client({});
  client.run("int width = 3;");
  const CellResult defined = client.run(
      "void training_function(int epochs) {\n"
      "  accelerate::Accelerator accelerator;\n"
      "  torch::manual_seed(0);\n"
      "  torch::nn::Linear model(width, 1);\n"
      "  accelerate::AdamW optimizer(model->parameters(), 0.1);\n"
      "  accelerator.prepare(model, optimizer);\n"
      "  for (int epoch = 0; epoch < epochs; ++epoch) {\n"
      "    auto x = torch::ones({2, width}) * (accelerator.process_index() + "
      "1);\n"
      "    accelerator.backward(model->forward(x).pow(2).mean());\n"
      "    optimizer.step();\n"
      "    optimizer.zero_grad();\n"
      "  }\n"
      "  accelerator.print(\"trained \", epochs, \" epochs on \",\n"
      "                    accelerator.num_processes());\n"
      "}");
  ASSERT_EQ(status(defined), "ok") << traceback(defined) << defined.errors;
  // Once a notebook has used autograd, its process cannot be forked safely.
  const CellResult used = client.run(
      "auto weight = torch::ones({64, 64}, torch::requires_grad());\n"
      "weight.matmul(weight).sum().backward();\nweight.grad().sum().item<"
      "double>()");
  EXPECT_EQ(used.output, "524288\n") << traceback(used);

  for (int time = 0; time < 2; ++time) {
    const CellResult result = client.run(
        "std::cout << \"once\" << std::endl;\n"
        "accelerate::notebook_launcher(training_function, std::tuple(3), "
        "{.num_processes = 2});\nstd::cout << \"after\" << std::endl;");
    EXPECT_EQ(status(result), "ok") << traceback(result) << result.errors;
    EXPECT_EQ(result.output, "once\ntrained 3 epochs on 2\nafter\n");
  }
}

// A client starts a new output whenever the stream changes, so a bar that is
// sent as text would continue on a new line after each `std::cout`.
TEST_F(Jupyter, ShowsAProgressBarAsOneOutputThatChanges) {
  JupyterClient client({});
  const std::string loop =
      "  accelerate::tqdm bar(4, {.interval = std::chrono::milliseconds(0)});\n"
      "  for (int epoch = 0; epoch < 2; ++epoch) {\n"
      "    bar.update(2);\n"
      "    std::cout << \"epoch \" << epoch << std::endl;\n"
      "  }\n";

  // Tests a bar of the first worker and a bar of the cell.
  for (const std::string& code :
       {"accelerate::notebook_launcher([] {\n"
        "  accelerate::PartialState state;\n"
        "  if (state.process_index() > 0) { return; }\n" +
            loop + "}, {.num_processes = 2});",
        "{\n" + loop + "}"}) {
    const CellResult result = client.run(code);

    ASSERT_EQ(status(result), "ok") << traceback(result) << result.errors;
    EXPECT_EQ(result.output, "epoch 0\nepoch 1\n");
    EXPECT_EQ(result.errors, "");
    ASSERT_THAT(result.displays, testing::SizeIs(testing::Ge(3U)));
    const Json& first = result.displays.front();
    const Json& last = result.displays.back();
    EXPECT_EQ(first.at("type").as_string(), "display_data");
    EXPECT_THAT(text_of(first), HasSubstr("0/4"));
    EXPECT_THAT(text_of(last), testing::StartsWith("100%|"));
    for (std::size_t i = 1; i < result.displays.size(); ++i) {
      EXPECT_EQ(
          result.displays[i].at("type").as_string(), "update_display_data");
      EXPECT_EQ(
          result.displays[i].at("transient").at("display_id").as_string(),
          first.at("transient").at("display_id").as_string());
    }
  }
}

TEST_F(Jupyter, ShowsTwoProgressBarsAsTwoOutputs) {
  JupyterClient client({});

  const CellResult result = client.run(
      "for (int i = 0; i < 2; ++i) {\n"
      "  accelerate::tqdm bar(1);\n  bar.update(1);\n}");

  EXPECT_EQ(
      std::ranges::count_if(
          result.displays,
          [](const Json& display) {
            return display.at("type").as_string() == "display_data";
          }),
      2);
}

TEST_F(Jupyter, AWorkerExceptionFailsTheCellAndNamesTheRank) {
  JupyterClient client({});

  const CellResult result = client.run(
      "accelerate::notebook_launcher([] {\n"
      "  accelerate::PartialState state;\n"
      "  if (state.process_index() == 1) {\n"
      "    throw accelerate::ArgumentError(\"`lr` is -1\", \"raise it\");\n"
      "  }\n"
      "  state.wait_for_everyone();\n"
      "}, {.num_processes = 2});");

  EXPECT_EQ(field(result, "ename"), "accelerate::DistributedError");
  EXPECT_THAT(result.errors, HasSubstr("`lr` is -1"));
  EXPECT_THAT(result.errors, HasSubstr("rank 1 failed first"));
  EXPECT_EQ(client.run("1 + 1").output, "2\n");
}

TEST_F(Jupyter, WorkersExitWhenTheCellIsInterrupted) {
  JupyterClient client({});

  client.begin(
      "accelerate::notebook_launcher([] {\n"
      "  accelerate::PartialState state;\n"
      "  std::cout << \"pid \" << ::getpid() << \" x\" << std::endl;\n"
      "  while (true) {}\n"
      "}, {.num_processes = 1});");
  client.await_output(" x");
  (void)client.ask("interrupt_request", Json::object(), true);

  const CellResult result = client.finish();
  EXPECT_EQ(status(result), "error");
  const auto at = result.output.find("pid ");
  EXPECT_TRUE(exits_within(
      std::stoi(result.output.substr(at + 4)), std::chrono::seconds(5)));
  EXPECT_EQ(client.run("1 + 1").output, "2\n");
}

// The processes that a cell printed as `pid <number>`.
std::vector<pid_t> printed_pids(const std::string& output) {
  std::vector<pid_t> pids;
  for (auto at = output.find("pid "); at != std::string::npos;
       at = output.find("pid ", at + 1)) {
    pids.push_back(std::stoi(output.substr(at + 4)));
  }
  return pids;
}

TEST_F(Jupyter, AKilledWorkerFailsTheCellAndStopsTheOthers) {
  JupyterClient client({});
  const CellResult defined = client.run(
      "#include <csignal>\n"
      "void die_on_one() {\n"
      "  accelerate::PartialState state;\n"
      "  std::cout << \"pid \" << ::getpid() << std::endl;\n"
      "  state.wait_for_everyone();\n"
      "  if (state.process_index() == 1) {\n"
      "    ::kill(::getpid(), SIGKILL);\n"
      "  }\n"
      "  state.wait_for_everyone();\n"
      "}");
  ASSERT_EQ(status(defined), "ok") << traceback(defined);

  const CellResult result = client.run(
      "accelerate::notebook_launcher(die_on_one, {.num_processes = 2});");

  EXPECT_EQ(field(result, "ename"), "accelerate::DistributedError")
      << traceback(result);
  EXPECT_THAT(result.errors, HasSubstr("rank 1 failed first"));
  EXPECT_THAT(result.errors, HasSubstr("SIGKILL"));
  const auto pids = printed_pids(result.output);
  EXPECT_EQ(pids.size(), 2u) << result.output;
  for (const pid_t pid : pids) {
    EXPECT_TRUE(exits_within(pid, std::chrono::seconds(5)));
  }
  EXPECT_EQ(client.run("1 + 1").output, "2\n");
}

TEST_F(Jupyter, WorkersExitWhenTheKernelIsKilled) {
  JupyterClient client({});

  // A worker that ignores SIGTERM; the launcher must kill it.
  client.begin(
      "accelerate::notebook_launcher([] {\n"
      "  accelerate::Accelerator accelerator;\n"
      "  accelerator.checkpoint_requested();\n"
      "  accelerator.wait_for_everyone();\n"
      "  const auto pids = accelerate::gather_object("
      "{accelerate::Json(::getpid())});\n"
      "  accelerator.print(\"pid \", pids[0].as_integer(), \" pid \", "
      "pids[1].as_integer(), \" x\");\n"
      "  while (true) {}\n"
      "}, {.num_processes = 2});");
  const auto pids = printed_pids(client.await_output(" x"));
  ASSERT_EQ(pids.size(), 2u);

  ::kill(client.kernel(), SIGKILL);

  EXPECT_TRUE(client.wait_for_exit(std::chrono::seconds(5)));
  for (const pid_t pid : pids) {
    EXPECT_TRUE(exits_within(pid, std::chrono::seconds(5)));
  }
}

TEST_F(Jupyter, CompletesNamesOfLibTorchAndAccelerate) {
  JupyterClient client({});
  client.run("torch::Tensor weight = torch::ones({2});");

  const auto matches = [&](const std::string& code) {
    return client
        .ask(
            "complete_request",
            Json::object(
                {{"code", code},
                 {"cursor_pos", static_cast<std::int64_t>(code.size())}}))
        .at("matches")
        .dump();
  };
  EXPECT_EQ(
      matches("weight.requires_gra"), R"(["requires_grad","requires_grad_"])");
  EXPECT_EQ(
      matches("accelerate::Accelerator a;\na.gather_for_m"),
      R"(["gather_for_metrics"])");
}

TEST_F(Jupyter, ShowsLibTorchErrorsWithoutTheStack) {
  JupyterClient client({});

  const CellResult result =
      client.run("torch::ones({2, 3}).matmul(torch::ones({2, 3}));");

  EXPECT_EQ(
      field(result, "evalue"),
      "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)");
}

}  // namespace
}  // namespace accelerate::jupyter
