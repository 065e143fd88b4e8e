# SPDX-License-Identifier: Apache-2.0
"""A worker process of `notebook_launcher`: reads a function from a folder, runs it, and writes its result there."""

import os
import pickle
import sys
import traceback

from accelerate_cpp import errors


def _write(path: str, data: bytes) -> None:
    with open(path + ".part", "wb") as file:
        file.write(data)
    os.replace(path + ".part", path)


def _user_traceback(error: BaseException) -> str:
    """The traceback, starting at the user's function."""
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
    except SystemExit as exit:
        return exit.code if isinstance(exit.code, int) else int(exit.code is not None)
    except BaseException as error:
        text = f"{type(error).__name__}: {error}"
        caused_by_other_rank = isinstance(
            error, (errors.DistributedError, errors.MismatchError, errors.RankError)
        )
        report = pickle.dumps((caused_by_other_rank, text, _user_traceback(error)))
        _write(os.path.join(folder, f"error_{rank}"), report)
        print(text, file=sys.stderr)  # the launcher shows this in its report
        return 1
    return 0


if __name__ == "__main__":
    # The folder is not an argument, since all machines in a job must run the same command, but each has its own folder.
    code = main(os.environ["ACCELERATE_NOTEBOOK_FOLDER"])
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(code)
