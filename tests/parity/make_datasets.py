#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes golden/datasets.json: the rows that Hugging Face Datasets reads from
small CSV, JSON and text files.

    tests/parity/make_datasets.py    (Datasets 5.2.0, pandas 3.1.1, pyarrow 26.0.1)

Each case contains the files and either the columns and rows that Python reads,
or `refused`: a value that Python reads but that has no C++ column type, or
that Python converts to something else. C++ must reject such a file with an
error that contains the value. A file is a list of [text, number of
repetitions].
"""

import json
import os
import tempfile
import warnings
from pathlib import Path

CACHE = tempfile.TemporaryDirectory()
os.environ.update(HF_HOME=CACHE.name, HF_HUB_OFFLINE="1",
                  HF_DATASETS_OFFLINE="1")

import datasets  # noqa: E402

GOLDEN = Path(__file__).parent / "golden"
BLOCK = 10_000  # Datasets reads CSV files in blocks of this many rows.

TYPES = {
    "Value('int64')": "integer", "Value('float64')": "real",
    "Value('bool')": "boolean", "Value('string')": "string",
    "Value('large_string')": "string",
    # A column without any value has no type in Python.
    "Value('null')": "string", "List(Value('null'))": "integers",
    "List(Value('int64'))": "integers", "List(Value('float64'))": "reals",
    "List(Value('string'))": "strings",
}

CSV = {
    "CarriageReturns": "a,b\r1,x\r2,y\r",
    "CarriageReturnsNoLast": "a,b\r1,x",
    "MixedLineEnds": "a,b\r1,x\n2,y\r\n3,z\r\r\n4,w",
    "CarriageReturnsInQuotes": 'a,b\n"x\ry",1\n"p\r\nq",2\n',
    "IntegersWithAGap": "a,b\n1,x\n,y\n3,z\n",
    "TextWithAGap": "a,b\n1,x\n2,\n3,z\n",
    "MissingWords": "a,b\n1,x\nNA,None\n3,nan\n4,n/a\n5,null\n6,NULL\n7,NaN\n"
                    "8,<NA>\n9,N/A\n10,#N/A\n11,#NA\n12,-nan\n13,-NaN\n"
                    "14,1.#IND\n15,-1.#QNAN\n16,#N/A N/A\n17,1.#QNAN\n"
                    "18,-1.#IND\n19,NAN\n20,none\n21,Null\n",
    "QuotedMissingWords": 'a\n"NA"\nx\n""\n',
    "OnlyGaps": "a,b\n,x\n,y\n",
    "OnlyMissingWords": "a,b\nNA,x\nnull,y\n",
    "SpacesAroundIntegers": "a,b\n 1,x\n2 ,y\n\t3\t,z\n",
    "SpacesAroundReals": "a,b\n 1.5 ,x\n2 ,y\n",
    "SpacesAroundBooleans": "a,b\n true,x\nfalse,y\n",
    "SpacesAroundMissingWords": "a,b\n NA,x\n1,y\n",
    "QuotedNumbers": 'a\n"7"\n" 8"\n',
    "LargestInteger": "a\n9223372036854775807\n-9223372036854775808\n",
    "LargeIntegerAndReal": "a,b\n9223372036854775808,1\n1.5,2\n",
    "LargeIntegerNegativeAndReal":
        "a,b\n9223372036854775808,1\n-1,2\n1.5,2\n,3\n",
    "LargeIntegerWordAndMinus":
        "a,b\n9223372036854775808,1\n-x,2\n-1.5,3\n",
    "LargeIntegerAndWord": "a,b\n9223372036854775808,1\n,2\nx,3\n",
    "VeryLargeIntegerAndWord": "a,b\n18446744073709551616,1\nx,3\n",
    "LeadingZeros": "a\n007\n+3\n",
    "NotNumbers": "a,b,c,d,e,f,g,h,i,j,k\n"
                  "0x10,1_000,1e,.,- 1,1.5.5,--1,+-1,1d3,1 2,1f\n",
    "NotNumbers2": "a,b,c,d,e,f,g\n"
                   "1e5.5,+nan, infinity ,infin,1e 3,\u0661,1.5\u00a0\n",
    "RealForms": "a\n1e3\n2E-3\n1.\n.5\n-.5\n+1.5\n0e0\n1e400\n-1e400\n1e-400\n"
                 "1e9223372036854775807\n1e-99999999999999999999\n",
    "Infinity": "a\ninf\n-inf\nInfinity\n+INF\n-infinity\n+Infinity\n",
    "Booleans": "a\nTrue\ntrue\nTRUE\nFalse\ntRue\n",
    "BooleansWithAGap": "a,b\ntrue,1\n,2\nFALSE,3\n",
    "BooleanAndInteger": "a\ntrue\n1\n",
    "BooleanGapAndWord": "a,b\ntrue,1\n,2\nx,3\n",
    "ShortRows": "a,b,c\n1,2,3\n4,5\n6\n",
    "UnnamedFirst": ",a\n0,x\n1,y\n",
    "Unnamed": "a,,b,\n1,2,3,4\n",
    "UnnamedTaken": ",,Unnamed: 0\n1,2,3\n",
    "NameTwice": "a,a,a\n1,2,3\n",
    "NameTwiceTaken": "a,a,a.1\n1,2,3\n",
    "NameTwiceTakenBefore": "a.1,a,a\n1,2,3\n",
    "NameThrice": "a,a.1,a,a\n1,2,3,4\n",
    "MissingWordAsName": "NA, b \n1,2\n",
    "SpaceLines": "  \na,b\n1,2\n   \n \t \n3,4\n  ",
    "SpacesBeforeText": 'a\n  x\n  "y"\n',
    "QuotedSpaces": 'a\n" "\n1\n',
    "DelimiterLine": "a,b\n1,2\n,\n3,4\n",
    "TextAfterAQuote": 'a,b\n"x" y,1\n"p""q"r"s,2\n',
    "Nul": "a,b\nx\0y,1\n",
    "ByteOrderMark": "\ufeff\"a\",b\n1,2\n",
    "ControlSpaces": "a\n1\x0b\n2\x0c\n",
}

CSV_OPTIONS = {
    "Names": ("1,2\n3,4\n", dict(column_names=["x", "y", "z"])),
    "KeptWords": ("a,b,c\n1,x,\n,NA,\n", dict(keep_default_na=False)),
    "TabLines": ("a\tb\n1\t2\n  \n\t\n3\t4\n", dict(delimiter="\t")),
    "NoQuoting": ('a\tb\n"x\t1\n', dict(delimiter="\t", quoting=False)),
}

# A first block of rows, and one row of the next block.
BLOCKS = {
    "IntegerThenGap": ("1", ["2", ""]),
    "IntegerThenWhole": ("1", ["2.0", "3", "-1e3"]),
    "IntegerThenNothing": ("1", [""]),
    "RealThenInteger": ("1.5", ["2", ""]),
    "TextThenIntegers": ("x", ["7", "", "-8"]),
    "TextThenReals": ("x", ["1.5", "-0.25", "7"]),
    "TextThenBoolean": ("x", ["true", "false"]),
    "BooleanThenGap": ("true", ["", "False"]),
    "NothingThenNumbers": ("", ["1", "0.5"]),
}

JSON = {
    "List": '[{"a":1},{"a":2}]',
    "ListOnLines": '[\n  {"a":1, "b": "x,]}\\""},\n  {"a":2}\n]\n',
    "ListOfStrings": '["x","y{"]',
    "ListOfIntegers": "[1, 2]",
    "ListOfNumbers": "[1.5,2]",
    "ListOfLists": "[[1,2],[3,4]]",
    "ListWithOtherKeys": '[{"a":1},{"b":2},null]',
    "ListWithNull": '[{"a":null},{"a":1}]',
    "ListRoundsToTenDecimals":
        '[{"a":0.30000000000000004,"b":[0.12345678901,1e20]},'
        '{"a":123456789.123456789,"b":[1.5]},{"a":1.23456789012e-20}]',
    "ListWithLargeIntegers": '[{"a":9223372036854775809},{"a":null}]',
    "ListWithNan": '[{"a":NaN},{"a":1.5},{"a":-Infinity}]',
    "ListWithNanAndInteger": '[{"a":NaN},{"a":1}]',
    "ListAfterAByteOrderMark": '\ufeff[{"a":1}]',
    "OneObjectOnLines": '{\n "a": 1,\n "b": [2]\n}\n',
    "ObjectsOnLines": '{\n "a": 1\n}\n{\n "a": 2\n}\n',
    "ObjectsOnOneLine": '{"a":1} {"a":2}{"a":3}\n',
    "Nan": '{"a":NaN}\n{"a":1}\n{"a":-Infinity}\n{"a":Infinity}\n{"a":null}\n',
    "NanInAList": '{"a":[NaN,1.5,-Infinity]}\n',
    "NanAsText": '{"a":"NaN","NaN":"-Infinity"}\n',
    "SpaceLines": '\n  \n{"a":1}\n   \n\t\n{"a":2}\n',
    "CarriageReturns": '{"a":1}\r{"a":2}\r\n  {"a":3}\r',
    "NullRow": '{"a":1}\nnull\n{"a":2}\n',
    "LargeIntegers": '{"a":9223372036854775808}\n{"a":1}\n'
                     '{"a":18446744073709551616}\n{"a":-9223372036854775809}\n',
    "LargestInteger": '{"a":9223372036854775807}\n{"a":-9223372036854775808}\n',
    "IntegersAndReals": '{"a":1,"b":[1],"c":[]}\n{"a":1.5,"b":[2.5],"c":["x"]}\n',
    "MissingKeys": '{"b":1,"a":2}\n{"a":3,"c":"x","b":null}\n{}\n',
    "OnlyNull": '{"a":null,"b":[]}\n',
    "NotDates": '{"a":"2024-13-01","b":"2024-01-01 24:00:00","c":"20240101",'
                '"d":"2024-01-01 10:00:00.5","e":"2023-02-29","f":" 2024-01-01",'
                '"g":"2024-01-01T","h":"2024-01-01Z","i":"1900-02-29",'
                '"j":"2024-01-01T10:00:00+24:00","k":"2024-01-01t10:00",'
                '"l":"2024-01","m":"2024-04-31","n":"2024-01-01T10:00:00+2"}\n',
    "DatesAndWords": '{"a":"2024-01-01","b":["2024-01-01"]}\n'
                     '{"a":"","b":["x"]}\n',
    "Escapes": '{"a":"\\u00e9\\ud83d\\ude00\\n\\u0000/"}\n',
    "EmptyKey": '{"":1}\n',
}

LINE = '{"a":1,"b":[1],"p":"%s"}\n' % ("x" * 1000)
PARTS = {  # The first 10 MiB, and the rest.
    "IntegerThenWhole": '{"a":2.0,"b":[3.0,4]}\n{"a":null}\n',
    "IntegerThenInteger": '{"a":2,"b":[]}\n',
}

TEXT = {
    "CarriageReturns": "a\rb\r",
    "MixedLineEnds": "a\r\nb\n\rc\r\r\nd",
    "NoLastLineEnd": "a\n\nb",
    "EmptyLines": "\n\n",
    "Spaces": "  \n",
    "OtherBreaks": "a\x0cb\x0bc\x1cd\x85e\u2028f\n",
    "ByteOrderMark": "\ufeffa\nb",
    "Nul": "a\0b\n",
}

# The value that the error message must contain, and the file.
REFUSED = {
    "csv": {
        "Unsigned": ("9223372036854775808", "a\n9223372036854775808\n"),
        "UnsignedAndNegative":
            ("9223372036854775808", "a\n1\n9223372036854775808\n-1\n"),
        "UnsignedAndMinus": (
            "9223372036854775808",
            "a\n9223372036854775808\n-Infinity\n-1.5\n"),
        "EmptyLineBeforeAnEmptyCell":
            ("drops the empty first cell", "a,b\r1,2\r\r,3\r"),
        "UnsignedAndGap":
            ("9223372036854775808", "a,b\n9223372036854775808,1\n,2\n"),
        "LargeThenReal":
            ("18446744073709551616", "a\n18446744073709551616\n1.5\n"),
        "LargeGapAndWord": (
            "18446744073709551616", "a,b\n18446744073709551616,1\n,2\nx,3\n"),
        "LongRows": ("3 cells", "a,b\n1,2,3\n4,5,6\n"),
        "DelimiterAtTheEnd": ("3 cells", "a,b\n1,2,\n3,4,\n"),
    },
    "json": {
        "Object": ('{"b":1}', '{"a":{"b":1}}\n'),
        "ObjectInAList": ('[{"b":1}]', '{"a":[{"b":1}]}\n'),
        "Booleans": ("[true,false]", '{"a":[true,false]}\n'),
        "NestedList": ("[[1],[2]]", '{"a":[[1],[2]]}\n'),
        "NullInAList": ("[1,null]", '{"a":[1,null]}\n'),
        "MixedList": ('[1,"x"]', '{"a":[1,"x"]}\n'),
        "MixedTypes": ("a string", '{"a":1}\n{"a":"x"}\n'),
        "NanAndText": ("a string", '{"a":NaN}\n{"a":"x"}\n'),
        "Date": ("2024-01-01", '{"a":"2024-01-01"}\n{"a":null}\n'),
        "DateInAList": ("2024-01-01", '{"a":["2024-01-01"]}\n'),
        "Time": ("2024-01-01T10:00", '{"a":"2024-01-01T10:00"}\n'),
        "Hour": ("2024-01-01 10Z", '{"a":"2024-01-01 10Z"}\n'),
        "Offset": ("2024-01-01T10:00:00-0230",
                   '{"a":"2024-01-01T10:00:00-0230"}\n'),
        "SpaceBeforeAList": ("[", '  [{"a":1}]'),
    },
}

REFUSED_BLOCKS = {
    "IntegerThenHexadecimal": ("0x10", "1", ["0x10"]),
    "IntegerThenBoolean": ("true", "1", ["true"]),
    "RealThenBoolean": ("true", "1.5", ["true"]),
    "RealThenNan": ("NAN", "1.5", ["NAN"]),
    "TextThenLeadingZero": ("007", "x", ["7", "007"]),
    "TextThenSpace": (" 8", "x", [" 8"]),
    "TextThenLongReal": ("1.50", "x", ["1.5", "1.50"]),
    "TextThenWholeReal": ("1.0", "x", ["2", "1.0", "0.5"]),
    "TextThenExponent": ("1e3", "x", ["1e3"]),
    "TextThenCapitalBoolean": ("True", "x", ["true", "True"]),
    "BooleanThenInteger": ("0", "true", ["0"]),
    "NothingThenBoolean": ("true", "", ["true"]),
}


def load(kind, files, options=None):
    options = dict(options or {})
    if "quoting" in options:
        options["quoting"] = 0 if options["quoting"] else 3
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number, pieces in enumerate(files):
            paths.append(f"{folder}/{number}")
            text = "".join(piece * count for piece, count in pieces)
            Path(paths[-1]).write_bytes(text.encode())
        rows = datasets.load_dataset(kind, data_files=paths, split="train",
                                     cache_dir=folder, **options)
        return {name: str(feature) for name, feature in rows.features.items()
                }, list(rows)


def case(kind, name, files, options=None, rows_from=0):
    columns, rows = load(kind, files, options)
    # Rows are lists, so that each column name is stored only once.
    return {"format": kind, "name": name, "files": files,
            "options": options or {},
            "columns": [[column, TYPES[feature]]
                        for column, feature in columns.items()],
            "size": len(rows), "rows_from": rows_from,
            "rows": [[row[column] for column in columns]
                     for row in rows[rows_from:]]}


def refused(kind, name, files, value):
    load(kind, files)  # Python reads the file.
    return {"format": kind, "name": name, "files": files, "refused": value}


def block_file(first, rest):
    return [["a,b\n", 1], [f"{first},1\n", BLOCK],
            ["".join(f"{cell},1\n" for cell in rest), 1]]


def cases():
    for kind, texts in (("csv", CSV), ("json", JSON), ("text", TEXT)):
        for name, text in texts.items():
            yield case(kind, name, [[[text, 1]]])
    for name, (text, options) in CSV_OPTIONS.items():
        yield case("csv", name, [[[text, 1]]], options)
    for name, (first, rest) in BLOCKS.items():
        yield case("csv", name, [block_file(first, rest)], rows_from=BLOCK - 1)
    for name, rest in PARTS.items():
        count = (10 << 20) // len(LINE) + 2
        yield case("json", name, [[[LINE, count], [rest, 1]]], rows_from=count)
    yield case("csv", "HeaderOnly", [[["a\n1\n", 1]], [["a\n", 1]]])
    yield case("json", "WholeInTheNextFile",
               [[['{"a":1}\n', 1]], [['{"a":2.0}\n', 1]]])
    for kind, texts in REFUSED.items():
        for name, (value, text) in texts.items():
            yield refused(kind, name, [[[text, 1]]], value)
    for name, (value, first, rest) in REFUSED_BLOCKS.items():
        yield refused("csv", name, [block_file(first, rest)], value)
    yield refused("json", "DatesInTheNextFile",
                  [[['{"a":"x"}\n', 1]], [['{"a":"2024-01-01"}\n', 1]]],
                  "2024-01-01")


def main():
    warnings.simplefilter("ignore")
    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    lines = ",\n".join(json.dumps(entry) for entry in cases())
    (GOLDEN / "datasets.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
