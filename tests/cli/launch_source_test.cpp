// SPDX-License-Identifier: Apache-2.0
// `accelerate launch` with a program that is a single source file.
#include <fstream>

#include "cli_environment.h"

namespace accelerate::test {
namespace {

namespace fs = std::filesystem;

class LaunchSource : public CliTest {
 protected:
  /// Uses the compiler of this build, because compiler names differ between
  /// distributions.
  void write_toolchain(const std::string& members) const {
    std::ofstream(home_ + "/toolchain.json")
        << R"({"compiler": ")" << ACCELERATE_COMPILER << "\", " << members
        << "}";
  }
};

TEST_F(LaunchSource, CompilesASourceFileOnce) {
  const std::string source = home_ + "/hello.cpp";
  std::ofstream(home_ + "/word.h") << "#define WORD \"hello\"\n";
  std::ofstream(source) << "#include <cstdio>\n#include \"word.h\"\n"
                           "int main() { std::puts(WORD); }\n";
  write_toolchain(R"("flags": ["-O0"], "headers": ["cstdio"])");
  const std::string line = "ACCELERATE_TOOLCHAIN=" + home_ +
                           "/toolchain.json accelerate launch --cpu " + source;

  const auto explained =
      run("ACCELERATE_TOOLCHAIN=" + home_ +
          "/toolchain.json accelerate explain --json --cpu " + source);
  const auto first = run(line);
  const auto path = explained.out.find(home_ + "/.cache/accelerate-cpp");
  ASSERT_NE(path, std::string::npos) << explained.out;
  EXPECT_TRUE(fs::exists(
      explained.out.substr(path, explained.out.find('"', path) - path)))
      << explained.out;
  const auto second = run(line);
  std::ofstream(home_ + "/word.h") << "#define WORD \"changed\"\n";
  const auto third = run(line);

  EXPECT_EQ(first.out, "hello\n") << first.err;
  EXPECT_NE(first.err.find("Compiling hello.cpp"), std::string::npos);
  EXPECT_EQ(second.out, "hello\n");
  EXPECT_EQ(second.err.find("Compiling"), std::string::npos) << second.err;
  EXPECT_EQ(third.out, "changed\n");
}

// Another user of a shared cache folder leaves a program at the path where this
// user's launch looks for its own compiled program, with a record that lists no
// inputs.
TEST_F(LaunchSource, RefusesACacheThatAnotherUserCanWriteTo) {
  std::ofstream(home_ + "/hello.cpp")
      << "#include <cstdio>\nint main() { std::puts(\"hello\"); }\n";
  write_toolchain(R"("flags": ["-O0"])");
  const std::string variables =
      "export XDG_CACHE_HOME=$HOME/shared "
      "ACCELERATE_TOOLCHAIN=$HOME/toolchain.json; ";
  const auto explained =
      run("chmod 755 $HOME; mkdir -m 1777 $HOME/shared; " + variables +
          "accelerate explain --json --cpu $HOME/hello.cpp");
  const auto begin = explained.out.find(home_ + "/shared");
  ASSERT_NE(begin, std::string::npos) << explained.out << explained.err;
  const fs::path program =
      explained.out.substr(begin, explained.out.find('"', begin) - begin);
  std::ofstream(home_ + "/plant.sh")
      << "umask 0; mkdir -p " << program.parent_path().string() << "\n"
      << "printf '{}' > " << (program.parent_path() / "inputs.json").string()
      << "\nprintf '#!/bin/sh\necho planted\n' > " << program.string()
      << "\nchmod 755 " << program.string() << "\n";
  const auto planted =
      run(std::string(
              ::geteuid() == 0 ? "setpriv --reuid=65534 --clear-groups " : "") +
          "sh $HOME/plant.sh");
  ASSERT_EQ(planted.exit_code, 0) << planted.err;

  const auto result =
      run(variables + "accelerate launch --cpu $HOME/hello.cpp");

  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.exit_code, 0);
  EXPECT_NE(
      result.err.find(
          home_ +
          "/shared/accelerate-cpp is not a folder that only this user can "
          "access"),
      std::string::npos)
      << result.err;
}

TEST_F(LaunchSource, CompilesAgainWhenTheRecordDoesNotListTheSource) {
  std::ofstream(home_ + "/hello.cpp")
      << "#include <cstdio>\nint main() { std::puts(\"hello\"); }\n";
  write_toolchain(R"("flags": ["-O0"])");
  const std::string launch =
      "ACCELERATE_TOOLCHAIN=$HOME/toolchain.json accelerate launch --cpu "
      "$HOME/hello.cpp";
  ASSERT_EQ(run(launch).out, "hello\n");

  const std::string empty_file =
      R"({"/dev/null": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca4959)"
      R"(91b7852b855"})";
  for (const std::string& record : {std::string("{}"), empty_file}) {
    const auto result =
        run("cd $HOME/.cache/accelerate-cpp/programs/*/ && echo '" + record +
            "' > inputs.json && printf '#!/bin/sh\necho old\n' > hello && " +
            launch);
    EXPECT_EQ(result.out, "hello\n") << record << result.err;
  }
  EXPECT_EQ(run("stat -c %a $HOME/.cache/accelerate-cpp").out, "700\n");
}

// The test breaks the header after it is precompiled, so that reading it again
// fails.
TEST_F(LaunchSource, PrecompilesTheHeadersOfAnInstallation) {
  for (const char* name : {"one", "two"}) {
    std::ofstream(home_ + "/" + name + ".cpp")
        << " #  include <cstdio>\nint main() { std::puts(\"" << name
        << "\"); }\n";
  }
  write_toolchain(R"("flags": ["-O0"], "headers": ["vector", "cstdio"])");
  const std::string launch =
      "ACCELERATE_TOOLCHAIN=$HOME/toolchain.json accelerate launch --cpu ";

  const auto first = run(launch + "$HOME/one.cpp");
  const auto second = run(launch + "$HOME/two.cpp");

  EXPECT_EQ(first.out, "one\n") << first.err;
  EXPECT_NE(first.err.find("Precompiling headers"), std::string::npos);
  EXPECT_EQ(second.out, "two\n") << second.err;
  EXPECT_EQ(second.err.find("Precompiling headers"), std::string::npos);
}

// The same file must compile without `accelerate launch`.
TEST_F(LaunchSource, CompilesNoFileThatLacksItsIncludes) {
  std::ofstream(home_ + "/one.cpp")
      << "// #include <vector>\n#include <cstdio>\n"
         "int main() { std::vector<int> values; }\n";
  write_toolchain(R"("flags": ["-O0"], "headers": ["vector", "cstdio"])");

  const auto result =
      run("ACCELERATE_TOOLCHAIN=$HOME/toolchain.json accelerate launch --cpu "
          "$HOME/one.cpp");

  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("one.cpp does not compile"), std::string::npos)
      << result.err;
}

TEST_F(LaunchSource, ReportsHeadersThatCannotBePrecompiled) {
  std::ofstream(home_ + "/one.cpp")
      << "#if 0\n#include <no/such/header.h>\n#endif\nint main() {}\n";
  write_toolchain(R"("headers": ["no/such/header.h"])");

  const auto result =
      run("ACCELERATE_TOOLCHAIN=$HOME/toolchain.json accelerate launch --cpu "
          "$HOME/one.cpp");

  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(
      result.err.find("The headers could not be precompiled"),
      std::string::npos)
      << result.err;
}

TEST_F(LaunchSource, ShowsTheCompilersErrors) {
  std::ofstream(home_ + "/bad.cpp") << "int main() { return nonsense; }\n";
  write_toolchain(R"("flags": [])");

  const auto result =
      run("ACCELERATE_TOOLCHAIN=" + home_ +
          "/toolchain.json accelerate launch " + home_ + "/bad.cpp");

  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("nonsense"), std::string::npos);
  EXPECT_NE(
      result.err.find("error: bad.cpp does not compile"), std::string::npos);
}

TEST_F(LaunchSource, NamesAMisspelledOption) {
  const std::filesystem::path include = home_ + "/include/accelerate";
  std::filesystem::create_directories(include);
  std::ofstream(include / "loader.h")
      << "struct Options {\n  int batch_size = 1;\n};\n"
         "template <typename T> void load(T, Options) {}\n";
  std::ofstream(home_ + "/bad.cpp")
      << "#include <accelerate/loader.h>\n"
         "int main() { load(1, {.batchsize = 8}); }\n";
  write_toolchain(
      R"("flags": ["-std=c++20", "-isystem", ")" + home_ + R"(/include"])");

  const auto result =
      run("ACCELERATE_TOOLCHAIN=" + home_ +
          "/toolchain.json accelerate launch " + home_ + "/bad.cpp");

  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(
      result.err.find("hint: in bad.cpp, line 2 sets `.batchsize`; did you "
                      "mean `.batch_size`?"),
      std::string::npos)
      << result.err;
}

}  // namespace
}  // namespace accelerate::test
