# SPDX-License-Identifier: Apache-2.0
"""Loads the extension module and checks that it was built for this torch."""

import torch

from . import errors


def _load():
    try:
        from . import _core
    except ImportError as error:
        raise errors.UnsupportedError(
            f"accelerate_cpp cannot be loaded with torch {torch.__version__}: {error}",
            "install the torch version that this package requires, or rebuild the package with "
            "`pip install ./python`",
        ) from error
    built, installed = (version.split("+")[0].split(".")[:2] for version in (_core.torch_version, torch.__version__))
    if built != installed:
        raise errors.UnsupportedError(
            f"accelerate_cpp was built for torch {_core.torch_version}, but torch {torch.__version__} is installed",
            f"install torch=={'.'.join(built)}.*",
        )
    return _core


core = _load()
