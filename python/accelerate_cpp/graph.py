# SPDX-License-Identifier: Apache-2.0
"""Functions of tensors that a GPU starts as a whole."""

import weakref
from collections.abc import Mapping
from typing import Any, Callable

import torch

from . import _nests, errors


class GraphedFunction:
    """Calls a function of tensors; after a few calls with the same shapes a GPU records it and replays that.

    Arguments and results are nests of tensors; results have no gradients behind them. The function does nothing that
    the host has to do each time. What cannot be recorded runs as it is, and a warning says why, once: on a CPU, with
    several processes, and with a prepared optimizer, since those of torch count their steps on the host. So this is
    for evaluation, or for updates that the function makes itself. Do not use it after `free_memory()`.
    """

    def __init__(self, core, function: Callable, warmup_steps: int, max_graphs: int):
        self._function = function
        self._how = (core, warmup_steps, max_graphs)
        # Nests of one form each: shapes are the core's business.
        self._graphs: dict = {}
        self._call: Any = None
        self._result: Any = None
        self._graph_of(((), {}))  # says at once what is wrong with the numbers

    def __call__(self, *args, **kwargs):
        given = (args, kwargs)
        graph = self._graph_of(given)
        self._call = given
        try:
            tensors = graph.core(_nests.tensors_of(given))
        finally:
            self._call = None
        # A replay does not call the function: its result has the form of the last one.
        graph.result = self._result if self._result is not None else graph.result
        self._result = None
        return _nests.with_tensors(graph.result[0], tensors)

    num_graphs = property(lambda self: sum(graph.core.num_graphs for graph in self._graphs.values()))
    num_replays = property(lambda self: sum(graph.core.num_replays for graph in self._graphs.values()))
    why_not = property(lambda self: next((g.core.why_not for g in self._graphs.values() if g.core.why_not), ""))

    def _graph_of(self, given) -> "_Graph":
        form = _form(given, "an argument")
        if form not in self._graphs:
            core, warmup_steps, max_graphs = self._how
            itself = weakref.ref(self)  # the core holds what it is given, and is no garbage collector's business
            body = core.graph(lambda tensors: itself()._body(tensors), warmup_steps, max_graphs)
            self._graphs[form] = _Graph(body)
        return self._graphs[form]

    def _body(self, tensors: list) -> list:
        args, kwargs = _nests.with_tensors(self._call, tensors)
        result = self._function(*args, **kwargs)
        _form(result, "the result")
        found = _nests.tensors_of(result)
        # Without the tensors, which would keep their graph.
        self._result = (_nests.map_tensors(lambda tensor: torch.empty(0), result),)
        return found


class _Graph:
    def __init__(self, core):
        self.core = core
        self.result: Any = None


def _form(nest, where: str) -> str:
    """How tensors lie in a nest; refuses what a replay would freeze."""
    form = _nests.map_tensors(lambda _: None, nest)
    _check_leaves(form, where)
    return repr(form)


def _check_leaves(form, where: str) -> None:
    if form is None:
        return
    if isinstance(form, Mapping):
        items = form.values()
    elif isinstance(form, (list, tuple)):
        items = form
    else:
        raise errors.ArgumentError(
            f"graph: {where} has a `{type(form).__name__}`, which would stay as it is in every replay",
            "pass tensors, in lists, tuples and dicts",
        )
    for item in items:
        _check_leaves(item, where)
