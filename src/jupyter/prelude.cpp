// SPDX-License-Identifier: Apache-2.0
#include "jupyter/prelude.h"

namespace accelerate::jupyter {
namespace {

constexpr char kLibraries[] =
    "#include <torch/torch.h>\n"
    "#include <accelerate/accelerate.h>\n"
    "#include <accelerate/launchers.h>\n"
    "#include <transformers/transformers.h>\n";

constexpr char kIncludes[] =
    "#include <cstdio>\n"
    "#include <cstdlib>\n"
    "#include <cxxabi.h>\n"
    "#include <iostream>\n"
    "#include <map>\n"
    "#include <string>\n"
    "#include <tuple>\n"
    "#include <vector>\n";

// Displays a value, or its type if the value has no `operator<<`.
constexpr char kDisplay[] = R"(
namespace accelerate_notebook {
template <typename T>
void display(const T& value) {
  if constexpr (requires { std::cout << value; }) {
    std::cout << value << std::endl;
  } else {
    int status = 0;
    char* name = abi::__cxa_demangle(typeid(T).name(), nullptr, nullptr, &status);
    std::cout << '<' << (status == 0 ? name : typeid(T).name()) << '>' << std::endl;
    std::free(name);
  }
}
}  // namespace accelerate_notebook
extern "C" void accelerate_interpreter_describe(void (*)(std::string*));
)";

constexpr char kDescribe[] = R"(
namespace accelerate_notebook {
inline void describe(std::string* text) {
  try {
    throw;
  } catch (const accelerate::Error& error) {
    *text = error.what();
    if (!error.hint().empty()) {
      *text += "\nhint: " + error.hint();
    }
  } catch (const c10::Error& error) {
    *text = error.what_without_backtrace();
  } catch (const std::exception& error) {
    *text = error.what();
  } catch (...) {
  }
}
}  // namespace accelerate_notebook
)";

// Without LibTorch, only standard exceptions need a description.
constexpr char kDescribePlain[] = R"(
namespace accelerate_notebook {
inline constexpr void (*describe)(std::string*) = nullptr;
}  // namespace accelerate_notebook
)";

}  // namespace

std::string prelude_header(bool plain) {
  std::string text = plain ? "" : kLibraries;
  text += kIncludes;
  text += kDisplay;
  text += plain ? kDescribePlain : kDescribe;
  return text;
}

std::string prelude_code() {
  return "#line 1 \"prelude\"\n"
         "accelerate_interpreter_describe(accelerate_notebook::describe);\n";
}

}  // namespace accelerate::jupyter
