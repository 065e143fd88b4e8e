# SPDX-License-Identifier: Apache-2.0
"""Uses and tests each method of the Accelerator in two processes: see `every_name.py`."""

import os
import unittest

import support
import test_names


class EveryName(support.ProcessTest):
    def test_each_method_of_the_accelerator_works(self):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "every_name.py")
        code, out, err = support.finish(support.start(["--num_processes", "2", script, self.folder]))
        self.assertEqual(code, 0, out + err)
        used = set(out.split())
        self.assertEqual(test_names.methods_of("accelerator.h", "Accelerator") - used, set())

    def test_a_timeout_ends_a_wait(self):
        flag = os.path.join(self.folder, "flag")
        out = self.run_on(
            2,
            """
            import datetime, os, sys, time
            from accelerate_cpp import PartialState, errors
            state = PartialState(cpu=True, timeout=datetime.timedelta(seconds=1))
            flag = sys.argv[1]
            if state.process_index == 0:
                start = time.monotonic()
                try:
                    state.wait_for_everyone()
                except errors.DistributedError:
                    print("timed out", time.monotonic() - start < 30, flush=True)
                open(flag, "w").close()
            else:
                limit = time.monotonic() + 60
                while not os.path.exists(flag) and time.monotonic() < limit:
                    time.sleep(0.01)
            os._exit(0)  # The process group is unusable now, as intended.
            """,
            flag,
        )
        self.assertIn("timed out True", out)


if __name__ == "__main__":
    unittest.main()
