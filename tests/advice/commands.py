"""Commands that pages name, run as they stand."""

import re
import shlex
from html import unescape

from flows import storage
from flows.records.runs import open_run
from tests.flows.commands import run


def page_of(target) -> str:
    place, _ = open_run(str(target))
    return unescape(storage.read_bytes(place.file("report.html")).decode())


def steps_of(target) -> list[str]:
    """Return the commands below "What to do next"."""
    [steps] = re.findall(r'<ol class="steps">(.*?)</ol>', page_of(target), re.DOTALL)
    return re.findall(r"<code>(.*?)</code>", steps)


def obey(capsys, said: str, new: str = "") -> str:
    """Run a command as a page has it, its new file named; return what it prints."""
    program, *words = shlex.split(said.replace("NEW_FILE", new).partition(" > ")[0])
    assert program == "vbflows"
    code, out, err = run(capsys, *words)
    assert code == 0, err
    return out


def results_of(target):
    return open_run(str(target))[1].results
