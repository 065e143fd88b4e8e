# SPDX-License-Identifier: Apache-2.0
"""Every exception that this package raises on purpose, by what the caller can do about it.

Each has `hint`, an imperative that may be empty; `str(error)` shows both.
They are the classes of `accelerate/error.h`, and Python's own where one fits.
"""


class Error(RuntimeError):
    """Base of all others."""

    def __init__(self, message: str = "", hint: str = ""):
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message

    def __reduce__(self):
        return type(self), (self.message, self.hint)


class ArgumentError(Error, ValueError):
    """This value can never work."""


class ConfigError(Error, ValueError):
    """A file, flag or environment variable is wrong."""


class StateError(Error):
    """The right call at the wrong moment."""


class UnsupportedError(Error, NotImplementedError):
    """This build or device cannot do it."""


class IoError(Error, OSError):
    """Something outside cannot be read or written."""


class FormatError(Error, ValueError):
    """A file's content is not what it claims."""


class DistributedError(Error):
    """A peer died or did not come in time; the group is unusable afterwards."""


class MismatchError(DistributedError):
    """The processes made different calls; the group stays usable."""


class PeerError(DistributedError):
    """Another process raised while this one was fine; the group stays usable."""


class OutOfMemoryError(Error, MemoryError):
    """A device or the host has no memory left for the request."""


class InternalError(Error):
    """A bug of ours."""
