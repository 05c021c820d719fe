"""A memory in a process that was forked."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_FORKS = """
import os
from armory import ArmoryError, ToolMemory

def made():
    memory = ToolMemory(embedder="none")
    memory.add({"name": "get_weather"})
    return memory

memory = made()
assert len(memory.select_tools_for_query("weather")) == 1
child = os.fork()
if not child:
    try:
        memory.select_tools_for_query("weather")
    except ArmoryError as error:
        print(error, flush=True)
    memory.close()
    with made() as own:  # the threads that the parent started are not here
        print(*[tool["name"] for tool in own.select_tools_for_query("weather")], flush=True)
    os._exit(0)
os.waitpid(child, 0)
assert len(memory.select_tools_for_query("weather")) == 1
memory.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_process_that_was_forked_is_told_to_make_its_own_and_can() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _FORKS],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout == (
        "this memory was made before its process was forked; make one in each process\n"
        "get_weather\n"
    )
