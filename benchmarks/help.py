"""CPU that help takes: of the command's process, user and system, beside Python's own start.

python -m benchmarks.help [REPEATS]
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys

COMMANDS = {
    "python -c pass": ("-c", "pass"),
    "vbflows --help": ("-m", "flows.entry", "--help"),
    "vbflows keywords --help": ("-m", "flows.entry", "keywords", "--help"),
}


def cpu(words: tuple[str, ...]) -> float:
    """Return the seconds of CPU of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main(repeats: int) -> None:
    for name, words in COMMANDS.items():
        seconds = [cpu(words) for _ in range(repeats + 1)][1:]  # the first writes bytecode
        print(f"{name}: {statistics.median(seconds):.3f} s (least {min(seconds):.3f})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
