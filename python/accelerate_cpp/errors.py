# SPDX-License-Identifier: Apache-2.0
"""The exceptions that this package raises, classified by what the caller can do about them.

Each exception has a `hint`, which may be empty; `str(error)` shows the message and the hint.
The classes mirror the classes in `accelerate/error.h`, and also derive from a built-in exception if one fits.
"""


class Error(RuntimeError):
    """Base class of all exceptions that this package raises."""

    def __init__(self, message: str = "", hint: str = ""):
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message

    def __reduce__(self):
        return type(self), (self.message, self.hint)


class ArgumentError(Error, ValueError):
    """An argument has a value that can never work."""


class ConfigError(Error, ValueError):
    """A configuration file, flag or environment variable is wrong."""


class StateError(Error):
    """A valid call was made at the wrong time."""


class UnsupportedError(Error, NotImplementedError):
    """This build or device does not support the operation."""


class IoError(Error, OSError):
    """A file, socket or other external resource cannot be read or written."""


class FormatError(Error, ValueError):
    """The content of a file is malformed."""


class DistributedError(Error):
    """Another rank died or timed out; the process group is unusable afterwards."""


class MismatchError(Error):
    """The ranks made different calls, or calls with tensors that do not match; the process group stays usable."""


class RankError(Error):
    """Another rank raised an exception, but this rank did not; the process group stays usable."""


class OutOfMemoryError(Error, MemoryError):
    """Device or host memory is exhausted."""


class InternalError(Error):
    """A bug in this library."""
