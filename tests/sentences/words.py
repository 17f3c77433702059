"""Words of a command that cannot be: arguments, options, settings, files of settings, places."""

from pathlib import Path

from tests.sentences.said import Said, command


def run(words: str) -> Said:
    """Return a case of a run of keywords with more words."""
    return command(f"keywords @ @/out {words}")


def config(text: str) -> Said:
    """Return a case of a file of settings."""
    return command(
        "keywords @ @/out --config @/c.yaml",
        lambda folder: (folder / "c.yaml").write_text(text, encoding="utf-8"),
    )


def results(folder: Path) -> None:
    (folder / "in.csv").write_text("a\n1\n")
    (folder / "results").mkdir()
    (folder / "results" / "latest.json").write_text("{}")


def documents(folder: Path) -> None:
    (folder / "in.csv").write_text("doc_id,text\na,b\n")


OF_FAMILY = {
    "inference of words": "unit=word inference=mean_field",
    "the sd of no rate": "rate_sd=.3",
    "a rate of phrases": "keyword_rate=.3",
    "three faults at once": "fdr=2 per_documentt=3 min_count=x",
    "no equals sign": "fdr",
    "an open quote": "language='x",
    "a typo": "keyword_rat=.3",
    "a typo of a value": "model=corpsu",
    "a setting of no family": "starts=3",
    "a setting of another family": "n_experts=3",
    "a share of more than all": "fdr=120%",
    "a percentage of a number": "max_words=35%",
    "no finite number": "keyphrases=.inf",
}
# What YAML's library says of each would be an error of Python.
ODD_VALUES = {
    "a bool": "!!bool x",
    "a timestamp": "!!timestamp x",
    "a date": "2021-13-45",
    "a map": "!!map [1]",
    "bytes": "!!binary é",
    "a hexadecimal": "0x_",
    "5,000 digits": "9" * 5000,
    "4,000 digits": "9" * 4000,
    "a nest": "[" * 5000,
    "a list as a name": "{? [1]: 2}",
    "code": "!!python/object/apply:os.system [id]",
    "100,000 letters": "x" * 10**5,
    "an alias of itself": "&a [*a]",
}
PLACES = {
    "two places": "--workers 2 --scheduler tcp://host:8786",
    "no address": "--scheduler nonsense",
    "no port": "--scheduler tcp://host",
    "no address of Dask": "--scheduler ws://h:1",
    "fewer than no workers": "--workers -1",
    "all workers": "--workers all",
    "memory of no workers": "--memory-limit 4GiB",
    "memory of a cluster": "--scheduler tcp://host:8786 --memory-limit 4GiB",
    **{f"{size} of memory": f"--workers 2 --memory-limit {size}"
       for size in ("foo", "-1GiB", "0", "12", "100MiB", "1iB")},
}  # fmt: skip
CASES = {
    **{name: run(" ".join(f"--set {one}" for one in given.split()))
       for name, given in OF_FAMILY.items()},
    **{f"a setting of {name}": run(f"--set fdr={value}")
       for name, value in ODD_VALUES.items() if " " not in value},
    **{f"a file with {name}": config(f"fdr: {value}\n") for name, value in ODD_VALUES.items()},
    **{name: run(given) for name, given in PLACES.items()},
    "a file of a list": config("- a\n- b\n"),
    "a file that is no YAML": config("a: ["),
    "a name twice": config("fdr: 0.1\nseed: 1\nfdr: 0.2\n"),
    "a name twice in JSON": config('{"fdr": 0.1, "fdr": 0.2}'),
    "a number as a name": config("1: 2\n"),
    "an alias": config("fdr: *x\n"),
    "no file of settings": run("--config @/none.yaml"),
    "a file without an end": run("--config /dev/zero"),
    "a number that is no choice": command("variants @ @/out --set types=7"),
    "a list as a name of a sample": command("variants @ @/out --set case=[1,2]"),
    "an infinite number of experts": command("experts @ @/out --set tau=-.inf"),
    "a column as label and left out": command("experts @ @/out --column label=y --exclude y"),
    "no target": command("keywords a.csv"),
    "no source": command("keywords"),
    "no target of a score": command("score a b"),
    "no source of a check": command("check keywords"),
    "no pipeline": command("check a.csv"),
    "a typo of a pipeline": command("check keyword @"),
    "a typo of a family to begin": command("init keyword"),
    "a typo of a command": command("keywrods a b"),
    "a typo of an option": run("--sett x=1"),
    "a typo of how S3 is reached": command("--s3 endpoint_ur=x show s3://b/r"),
    "nothing there": command("keywords @/none @/out"),
    "a score with its input first": command("score @/in.csv @/results @/out", results),
    "an option that keywords has not": command("check keywords @/in.csv --include text", documents),
}  # fmt: skip
