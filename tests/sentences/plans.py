"""Plans of ``vbflows serve``: keys that are missing, unknown or of another kind."""

import yaml

from tests.sentences.said import Said, text

RIGHT = {"name": "often", "pipeline": "keywords", "source": "in", "target": "out", "every": 5}
CRON = {"every": None, "timezone": "Europe/Berlin", "cron": "30 2 * * *"}
SECRET = "https://store/a?X-Amz-Signature=canary"


def plan(**changes: object) -> Said:
    """Return a plan of one deployment with other keys; None leaves one out."""
    keys = {key: value for key, value in (RIGHT | changes).items() if value is not None}
    return whole({"deployments": [keys]})


def whole(content: object) -> Said:
    return text("serve", yaml.safe_dump(content), "plan.yaml")


def settings(**values: object) -> Said:
    return plan(settings=values)


CASES = {
    "no deployments": whole({"runs": []}),
    "a text as deployment": whole({"deployments": ["text"]}),
    "a deployment twice": whole({"deployments": [RIGHT, dict(RIGHT)]}),
    "no name": plan(name=None),
    "an empty name": plan(name=""),
    "a name with a slash": plan(name="nightly/all"),
    "no pipeline of ours": plan(pipeline="words"),
    "no target": plan(target=None, traget="out"),
    "a number as target": plan(target=5),
    "a number as source": plan(source=5),
    "a number among sources": plan(source=[1, "in"]),
    "a mapping as source": plan(source={"a": "b"}),
    "a source with a secret": plan(source=SECRET),
    "columns beside settings": plan(columns={"text": "body"}),
    "a list as since": plan(since=["x"]),
    "neither cron nor every": plan(every=None),
    "every tenth of a second": plan(every=0.1),
    "every 1e300 seconds": plan(every=1e300),
    "every infinite seconds": plan(every=float("inf")),
    "every nan": plan(every=float("nan")),
    "every soon": plan(every="soon"),
    "cron in words": plan(**CRON | {"cron": "often"}),
    "cron of a number": plan(**CRON | {"cron": 5}),
    "a time zone that is none": plan(**CRON | {"timezone": "Europe/Berln"}),
    "a number as compute": plan(compute=4),
    "a key of compute that is none": plan(compute={"worker": 2}),
    "workers in words": plan(compute={"workers": "two"}),
    "no workers": plan(compute={"workers": 0}),
    "workers and a scheduler": plan(compute={"workers": 1, "scheduler": "tcp://h:1"}),
    "reports nowhere": plan(compute={"reports": "here"}),
    "a list as settings": plan(settings=["unit"]),
    "a setting that is none": settings(unti="word"),
    "a share above all": settings(unit="word", keyword_rate=3.0),
    "a setting that contradicts another": settings(keyword_rate=0.35),
    "sweeps in words": settings(max_iter="many"),
    "an fdr of 2": settings(fdr=2),
    "an fdr below 0": settings(fdr=-0.1),
    "a list as stop words": settings(stop_words=["a"]),
    "a text as columns": settings(columns="text"),
    "a unit that is none": settings(unit="sentence"),
}
