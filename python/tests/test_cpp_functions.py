# SPDX-License-Identifier: Apache-2.0
"""Finds the functions in a C++ cell. Needs neither torch nor a compiler."""

import unittest

from accelerate_cpp.cpp_functions import find_functions


def names(code):
    return [function.name for function in find_functions(code)]


class FindFunctions(unittest.TestCase):
    def test_free_functions_with_their_parameters(self):
        (function,) = find_functions(
            "torch::Tensor twice(const torch::Tensor& x, std::map<int, int> y = {{1, 2}}, int* z = nullptr) {\n  return 2 * x;\n}"
        )
        self.assertEqual(function.name, "twice")
        self.assertEqual(function.result, "torch::Tensor")
        self.assertEqual(
            [(parameter.type, parameter.name, parameter.default) for parameter in function.parameters],
            [
                ("const torch::Tensor&", "x", ""),
                ("std::map<int, int>", "y", "{{1, 2}}"),
                ("int*", "z", "nullptr"),
            ],
        )

    def test_ignores_code_that_is_not_a_free_function(self):
        self.assertEqual(names("struct A { int f() { return 1; } };\nint A::g() { return 2; }"), [])
        self.assertEqual(names("static int f() { return 1; }\nint main() { return 0; }"), [])
        self.assertEqual(names("template <typename T>\nT f(T x) { return x; }"), [])
        self.assertEqual(names("namespace n { int f() { return 1; } }"), [])
        self.assertEqual(names("auto f = [](int x) { return x; };\nint x = g();\nint declared(int);"), [])

    def test_ignores_functions_in_comments_and_strings(self):
        code = (
            '#define BODY {\n// int a() {\n/* int b() { */\nconst char* text = "int c() {";\n'
            "const char* raw = R\"x(int d() {)x\";\nchar brace = '{';\nint million = 1'000'000;\nvoid real() {}\n"
        )
        self.assertEqual(names(code), ["real"])

    def test_names_types_and_trailing_results(self):
        function = find_functions("inline auto f(int, unsigned) -> std::vector<int> { return {}; }")[0]
        self.assertEqual(function.result, "std::vector<int>")
        self.assertEqual([(p.type, p.name) for p in function.parameters], [("int", ""), ("unsigned", "")])
        self.assertEqual(find_functions("void f(void) {}")[0].parameters, [])

    def test_bindings_name_arguments_and_choose_among_overloads(self):
        self.assertEqual(
            find_functions('void f(int epochs, std::string name = "a, b") {}')[0].binding(),
            '  module.def("f", &::f, pybind11::arg("epochs"), pybind11::arg("name") = '
            'static_cast<std::remove_cvref_t<std::string>>("a, b"), '
            "pybind11::call_guard<pybind11::gil_scoped_release>());\n",
        )
        self.assertIn(
            'pybind11::arg("x") = std::remove_cvref_t<const std::vector<int>&>{1, 2}, ',
            find_functions("void f(const std::vector<int>& x = {1, 2}) {}")[0].binding(),
        )
        self.assertIn(
            "static_cast<double (*)(double)>(&::f)",
            find_functions("int f(int x) { return x; }\ndouble f(double x) { return x; }")[1].binding(),
        )


if __name__ == "__main__":
    unittest.main()
