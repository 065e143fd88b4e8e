# SPDX-License-Identifier: Apache-2.0
"""One worker of `notebook_launcher`: reads a function from a folder, runs it, leaves its result there."""

import os
import pickle
import sys
import traceback

from accelerate_cpp import errors


def _write(path: str, data: bytes) -> None:
    with open(path + ".part", "wb") as file:
        file.write(data)
    os.replace(path + ".part", path)


def _own_frames(error: BaseException) -> str:
    """The traceback from the user's function on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))


def main(folder: str) -> int:
    rank = int(os.environ.get("RANK", "0"))
    try:
        with open(os.path.join(folder, "function"), "rb") as file:
            function, args = pickle.load(file)
        result = function(*args)
        if rank == 0:
            import cloudpickle

            _write(os.path.join(folder, "result"), cloudpickle.dumps(result))
    except KeyboardInterrupt:
        return 130
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:
        text = f"{type(error).__name__}: {error}"
        is_about_others = isinstance(error, errors.DistributedError)
        report = pickle.dumps((is_about_others, text, _own_frames(error)))
        _write(os.path.join(folder, f"error_{rank}"), report)
        print(text, file=sys.stderr)  # what the launcher's report shows
        return 1
    return 0


if __name__ == "__main__":
    # Not an argument: the machines of a run compare their commands, and each has a folder of its own.
    code = main(os.environ["ACCELERATE_NOTEBOOK_FOLDER"])
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(code)
