# SPDX-License-Identifier: Apache-2.0
"""Finds the functions that C++ code defines, and generates their Python bindings."""

import re
from dataclasses import dataclass, field

_NAME = re.compile(r"([A-Za-z_]\w*)\s*$")
# Other declarations that end with a brace, and functions that are local to the cell.
_NOT_A_FUNCTION = re.compile(r"^\s*(struct|class|union|enum|namespace|template|extern|static|using|typedef|concept|operator)\b")
_KEYWORDS = {"if", "for", "while", "switch", "catch", "return", "main"}


@dataclass
class Parameter:
    type: str
    name: str = ""
    default: str = ""

    def argument(self) -> str:
        if not self.name:
            return ""
        return f', pybind11::arg("{self.name}")' + (f" = {self._value()}" if self.default else "")

    def _value(self) -> str:
        """The default value with its type, since `{}` alone has no type."""
        value_type = f"std::remove_cvref_t<{self.type}>"
        if self.default.startswith("{"):
            return value_type + self.default
        return f"static_cast<{value_type}>({self.default})"


@dataclass
class Function:
    name: str
    result: str
    parameters: list = field(default_factory=list)
    is_overloaded: bool = False

    def binding(self) -> str:
        """A line for the body of `PYBIND11_MODULE`."""
        pointer = f"&::{self.name}"
        if self.is_overloaded:
            types = ", ".join(parameter.type for parameter in self.parameters)
            pointer = f"static_cast<{self.result} (*)({types})>({pointer})"
        # pybind11 requires names for all arguments or for none.
        named = all(parameter.name for parameter in self.parameters)
        arguments = "".join(parameter.argument() for parameter in self.parameters) if named else ""
        return (
            f'  module.def("{self.name}", {pointer}{arguments}, '
            "pybind11::call_guard<pybind11::gil_scoped_release>());\n"
        )


_NOT_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![A-Za-z0-9_])'(?:\\.|[^'\\\n])*'|^[ \t]*\#(?:\\\n|[^\n])*",
    re.S | re.M,
)


def _blank(code: str, first_characters: str) -> str:
    """Replaces comments, strings and directives that start with one of `first_characters` with spaces.

    The length and the lines of `code` stay the same.
    """

    def replace(match) -> str:
        text = match.group()
        return re.sub(r"[^\n]", " ", text) if text.lstrip()[0] in first_characters else text

    return _NOT_CODE.sub(replace, code)


def _split(text: str, blanked: str) -> list:
    """Splits at the commas that are not inside brackets."""
    parts, depth, begin = [], 0, 0
    for index, char in enumerate(blanked):
        depth += (char in "([{<") - (char in ")]}>" and blanked[index - 1 : index + 1] != "->")
        if char == "," and depth == 0:
            parts.append(text[begin:index])
            begin = index + 1
    return [part.strip() for part in [*parts, text[begin:]] if part.strip()]


def _parameter(text: str) -> Parameter:
    head, equals, default = text.partition("=")
    head = head.strip()
    found = _NAME.search(head)
    # The name follows the type: `int` is only a type, `const T& x` has both.
    before = head[: found.start()].strip() if found else ""
    if not found or not before or before in ("const", "unsigned", "signed", "volatile", "struct") or before.endswith("::"):
        return Parameter(head, "", default.strip())
    return Parameter(before, found.group(1), default.strip() if equals else "")


def _function(head: str, blanked: str):
    """The function that the top-level text `head` declares, or None."""
    if _NOT_A_FUNCTION.match(blanked):
        return None
    open_bracket = blanked.find("(")
    if open_bracket < 0:
        return None
    found = _NAME.search(blanked[:open_bracket])
    if not found or found.group(1) in _KEYWORDS:
        return None
    result = head[: found.start()].strip()
    # `A::f` is a member function; without a result type it is a constructor or a macro.
    if not result or result.endswith("::") or "=" in blanked[: found.start()]:
        return None
    result = re.sub(r"\b(inline|constexpr|\[\[[^\]]*\]\])\s*", "", result).strip()
    depth, end = 0, open_bracket
    for end in range(open_bracket, len(blanked)):
        depth += (blanked[end] == "(") - (blanked[end] == ")")
        if depth == 0:
            break
    trailing = re.search(r"->\s*(.+)$", head[end + 1 :].strip(), re.S)
    if trailing:
        result = trailing.group(1).strip()
    inside = slice(open_bracket + 1, end)
    parts = _split(head[inside], blanked[inside])
    if parts == ["void"]:
        parts = []
    return Function(found.group(1), result, [_parameter(part) for part in parts])


def find_functions(code: str) -> list:
    """The free functions that `code` defines at the top level, except `main` and static functions."""
    code = _blank(code, "/#")  # comments and preprocessor directives
    blanked = _blank(code, "R\"'")  # strings too
    functions, depth, brackets, begin = [], 0, 0, 0
    for index, char in enumerate(blanked):
        brackets += (char in "([") - (char in ")]")
        if char == "{":
            if depth == 0 and brackets == 0:
                function = _function(code[begin:index], blanked[begin:index])
                if function is not None:
                    functions.append(function)
            depth += 1
        elif char == "}":
            depth -= 1
        if depth == 0 and brackets == 0 and char in ";}":
            begin = index + 1
    names = [function.name for function in functions]
    for function in functions:
        function.is_overloaded = names.count(function.name) > 1
    return functions
