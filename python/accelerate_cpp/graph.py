# SPDX-License-Identifier: Apache-2.0
"""Functions on tensors that are captured in CUDA graphs and replayed."""

import weakref
from collections.abc import Mapping
from typing import Any, Callable

import torch

from . import _nests, errors


class GraphedFunction:
    """Calls a function on tensors; after a few calls with the same shapes, captures a CUDA graph and replays it.

    Arguments and results are nests (tensors in lists, tuples or dicts); gradients do not flow through the results. CPU
    code in the function does not run when the graph is replayed. Functions cannot be captured on a CPU, with several
    processes, or if an optimizer is prepared, since torch optimizers count their steps on the CPU. In these cases the
    function runs eagerly, and one warning gives the reason. Capturing is therefore meant for evaluation, or for updates
    that the function makes itself. Do not call the function after `free_memory()`.
    """

    def __init__(self, core, function: Callable, warmup_steps: int, max_graphs: int):
        self._function = function
        self._options = (core, warmup_steps, max_graphs)
        # One entry per structure of the arguments; the core distinguishes shapes.
        self._graphs: dict = {}
        self._call: Any = None
        self._result: Any = None
        self._graph_of(((), {}))  # checks `warmup_steps` and `max_graphs` immediately

    def __call__(self, *args, **kwargs):
        call_arguments = (args, kwargs)
        graph = self._graph_of(call_arguments)
        self._call = call_arguments
        try:
            tensors = graph.core(_nests.tensors_of(call_arguments))
        finally:
            self._call = None
        # A replay does not call the function: the result has the same structure as the previous result.
        graph.result = self._result if self._result is not None else graph.result
        self._result = None
        return _nests.with_tensors(graph.result[0], tensors)

    num_graphs = property(lambda self: sum(graph.core.num_graphs for graph in self._graphs.values()))
    num_replays = property(lambda self: sum(graph.core.num_replays for graph in self._graphs.values()))
    why_not = property(lambda self: next((g.core.why_not for g in self._graphs.values() if g.core.why_not), ""))

    def _graph_of(self, call_arguments) -> "_Graph":
        structure = _structure(call_arguments, "an argument")
        if structure not in self._graphs:
            core, warmup_steps, max_graphs = self._options
            # Weak, since the garbage collector cannot see the reference that the core holds.
            weak_self = weakref.ref(self)
            body = core.graph(lambda tensors: weak_self()._body(tensors), warmup_steps, max_graphs)
            self._graphs[structure] = _Graph(body)
        return self._graphs[structure]

    def _body(self, tensors: list) -> list:
        args, kwargs = _nests.with_tensors(self._call, tensors)
        result = self._function(*args, **kwargs)
        _structure(result, "the result")
        found = _nests.tensors_of(result)
        # Without the tensors, which would keep their autograd graph alive.
        self._result = (_nests.map_tensors(lambda tensor: torch.empty(0), result),)
        return found


class _Graph:
    def __init__(self, core):
        self.core = core
        self.result: Any = None


def _structure(nest, where: str) -> str:
    """The structure of a nest without its tensors. Raises an error for values that a replay would not update."""
    structure = _nests.map_tensors(lambda _: None, nest)
    _check_leaves(structure, where)
    return repr(structure)


def _check_leaves(structure, where: str) -> None:
    if structure is None:
        return
    if isinstance(structure, Mapping):
        items = structure.values()
    elif isinstance(structure, (list, tuple)):
        items = structure
    else:
        raise errors.ArgumentError(
            f"graph: {where} contains a value of type `{type(structure).__name__}`, which would be the same in every replay",
            "use only tensors, in lists, tuples and dicts",
        )
    for item in items:
        _check_leaves(item, where)
