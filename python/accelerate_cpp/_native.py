# SPDX-License-Identifier: Apache-2.0
"""Loads the extension with the LibTorch that it was built for."""

import torch

from . import errors


def _load():
    try:
        from . import _core
    except ImportError as error:
        raise errors.UnsupportedError(
            f"accelerate_cpp does not load with torch {torch.__version__}: {error}",
            "install the torch that this package was built for, see its metadata, or build it with "
            "`pip install ./python`",
        ) from error
    built, here = (version.split("+")[0].split(".")[:2] for version in (_core.torch_version, torch.__version__))
    if built != here:
        raise errors.UnsupportedError(
            f"accelerate_cpp was built for torch {_core.torch_version}, here is torch {torch.__version__}",
            f"install torch=={'.'.join(built)}.*",
        )
    return _core


core = _load()
