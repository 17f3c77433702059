import json

import pytest

from flows.faults import InputError
from flows.settings import KeywordSettings, compute_settings, describe, load


def faults_of(*args, **kwargs):
    with pytest.raises(InputError) as caught:
        load(KeywordSettings, *args, **kwargs)
    return [str(fault) for fault in caught.value.faults]


def test_the_last_one_wins(tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text("fdr: 0.2\nwindow: 3\nseed: 1\n")
    found = load(KeywordSettings, str(config), ["window=4", "seed=2"], seed=5)
    assert (found.fdr, found.window, found.seed) == (0.2, 4, 5)


def test_json_is_a_config_too(tmp_path):
    config = tmp_path / "c.json"
    config.write_text(json.dumps({"model": "ss"}))
    assert load(KeywordSettings, str(config), []).model == "ss"


def test_every_fault_is_listed_at_once():
    found = faults_of(None, ["fdr=2", "windoww=3", "min_count=x"])
    assert len(found) == 3
    assert any("fdr" in line and "less than 1" in line and "found 2" in line for line in found)
    assert any("windoww" in line and "known are" in line for line in found)


def test_an_assignment_without_equals_is_refused():
    assert "expected key=value, found 'fdr'" in faults_of(None, ["fdr"])[0]


def test_a_config_that_is_no_mapping_or_not_there_is_refused(tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text("- a\n- b\n")
    assert "expected names with values, found list" in faults_of(str(config), [])[0]
    assert "No such file" in faults_of(str(tmp_path / "none.yaml"), [])[0]
    config.write_text("a: [")
    assert "expected a YAML or JSON file" in faults_of(str(config), [])[0]


def test_settings_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        KeywordSettings().fdr = 0.5


def test_every_setting_is_described():
    for name, bounds, default, meaning in describe(KeywordSettings):
        assert name
        assert bounds
        assert default
        assert meaning.endswith("."), name


@pytest.mark.parametrize(
    ("workers", "scheduler", "sentence"),
    [
        (2, "tcp://host:8786", "both workers and a scheduler"),
        (None, "nonsense", "'nonsense' is no address; write one such as tcp://host:8786"),
        (None, "tcp://host", "write one such as"),
        (0, None, "column workers: expected input should be greater than or equal to 1, found 0"),
    ],
)
def test_where_to_compute_must_make_sense(workers, scheduler, sentence):
    with pytest.raises(InputError, match=sentence):
        compute_settings(workers, scheduler)


@pytest.mark.parametrize("scheduler", ["tcp://host:8786", "tls://10.0.0.1:1", "tcp://[::1]:8786"])
def test_addresses_are_taken(scheduler):
    assert compute_settings(None, scheduler).scheduler == scheduler
