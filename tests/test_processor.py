"""The processor that `tests.processor` plays is one that this one is not."""

import json
import os
import subprocess
import sys

from numpy._core._multiarray_umath import __cpu_dispatch__

from tests.processor import other_processor

SAY = """
import json, numba, numpy
from numpy._core._multiarray_umath import __cpu_features__
print(json.dumps([__cpu_features__, numba.config.CPU_NAME]))
"""


def test_the_other_processor_has_none_of_what_numpy_dispatches():
    environment = {**os.environ, **other_processor()}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SAY],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    features, compiled_for = json.loads(done.stdout)
    assert not any(features.get(name) for name in __cpu_dispatch__)
    assert compiled_for == "generic"
