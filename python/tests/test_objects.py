# SPDX-License-Identifier: Apache-2.0
"""Objects from a process that is not a rank of this run are not unpickled."""

import os
import pickle
import unittest
import warnings
from unittest import mock

from accelerate_cpp import PartialState, _objects, data_loader, errors, operations

VARIABLES = {
    "ACCELERATE_STORE_SECRET": "0123456789abcdef",
    "ACCELERATE_STORE_RUN": "run",
    "TORCHELASTIC_RUN_ID": "run",
}


class Attack:
    """An object that runs code when it is unpickled."""

    done = False

    def __reduce__(self):
        return Attack.succeed, ()

    @staticmethod
    def succeed():
        Attack.done = True


class Network:
    """A group whose answers an attacker chooses."""

    size = 2

    def __init__(self, answer):
        self.answer = answer

    def gather_object(self, parts):
        return self.answer(parts)

    def broadcast_object_list(self, parts, from_process):
        return self.answer(parts)


class Objects(unittest.TestCase):
    def setUp(self):
        PartialState(cpu=True)
        Attack.done = False
        # The numbers of the calls start at 0, as in a new process.
        for name, kind in (("_gathered", "gather"), ("_broadcast", "broadcast")):
            patch = mock.patch.object(operations, name, _objects.Exchange(kind))
            patch.start()
            self.addCleanup(patch.stop)
        patch = mock.patch.dict(os.environ, VARIABLES)
        patch.start()
        self.addCleanup(patch.stop)

    def from_rank(self, rank):
        """Packs as another rank of the run."""
        return mock.patch.object(_objects, "PartialState", lambda: mock.Mock(process_index=rank, num_nodes=2))

    def refused(self, call):
        with self.assertRaisesRegex(errors.DistributedError, "was sent by a process outside this run, or for another call"):
            call()
        self.assertFalse(Attack.done)

    def test_the_objects_of_the_ranks_arrive(self):
        with self.from_rank(1):
            other = _objects.Exchange("gather").pack(["c", {"d": 1}])

        gathered = operations.gather_object(["a", "b"], group=Network(lambda parts: parts + other))

        self.assertEqual(gathered, ["a", "b", "c", {"d": 1}])

    def test_a_stranger_runs_no_code(self):
        attack = Network(lambda parts: [*parts[:1], pickle.dumps(Attack())])
        self.refused(lambda: operations.gather_object([1, 2], group=attack))
        self.refused(lambda: operations.broadcast_object_list([1, 2], group=attack))
        self.refused(lambda: data_loader._broadcast_from_first([1], Network(lambda parts: [pickle.dumps(Attack())])))

    def test_a_changed_object_is_refused(self):
        for byte in range(80):

            def change(parts, byte=byte):
                data = bytearray(parts[0])
                data[byte % len(data)] ^= 1
                return [bytes(data)]

            self.refused(lambda: operations.gather_object([1], group=Network(change)))

    def test_objects_of_an_earlier_call_are_refused(self):
        sent = []
        operations.gather_object(["old"], group=Network(lambda parts: sent.extend(parts) or parts))

        self.refused(lambda: operations.gather_object(["new"], group=Network(lambda parts: sent)))

    def test_objects_at_another_place_are_refused(self):
        self.refused(lambda: operations.gather_object([1, 2], group=Network(lambda parts: parts[::-1])))
        self.refused(lambda: operations.gather_object([1, 2], group=Network(lambda parts: parts + parts)))

    def test_objects_of_another_call_are_refused(self):
        sent = _objects.Exchange("gather").pack(["x"])

        self.refused(lambda: operations.broadcast_object_list(["x"], group=Network(lambda parts: sent)))

    def test_a_broadcast_comes_from_its_rank(self):
        with self.from_rank(1):
            sent = _objects.Exchange("broadcast").pack(["x"])

        self.refused(lambda: operations.broadcast_object_list(["x"], 0, group=Network(lambda parts: sent)))
        self.assertEqual(
            operations.broadcast_object_list(["y"], 1, group=Network(lambda parts: sent)),
            ["x"],
        )

    def test_the_structure_of_a_batch_is_checked(self):
        self.assertEqual(_objects.open_text("batch", _objects.seal_text("batch", [1, "x"])), [1, "x"])
        self.assertEqual(_objects.seal_text("batch", [1]), _objects.seal_text("batch", [1]))
        with mock.patch.dict(os.environ, {"ACCELERATE_STORE_SECRET": "another secret"}):
            attack = _objects.seal_text("batch", Attack())
        self.refused(lambda: _objects.open_text("batch", attack))

    def test_a_restart_has_another_key(self):
        with mock.patch.dict(os.environ, {"TORCHELASTIC_RESTART_COUNT": "1"}):
            old = _objects.Exchange("gather").pack(["x"])
        self.refused(lambda: operations.gather_object([], group=Network(lambda parts: old)))

    def test_without_a_key_several_machines_cause_one_warning(self):
        os.environ.pop("ACCELERATE_STORE_SECRET")
        _objects._warn_once.cache_clear()
        with warnings.catch_warnings(record=True) as seen, self.from_rank(0):
            warnings.simplefilter("always")
            for _ in range(3):
                self.assertEqual(operations.gather_object([1], group=Network(lambda parts: parts)), [1])
        self.assertEqual(len(seen), 1)
        self.assertIn("unpickled without authentication", str(seen[0].message))

    def test_a_launcher_inside_a_worker_has_no_key(self):
        with mock.patch.dict(os.environ, {"TORCHELASTIC_RUN_ID": "a run inside"}):
            self.assertIsNone(_objects._key())


if __name__ == "__main__":
    unittest.main()
