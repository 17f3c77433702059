import pytest

from flows import stages
from flows.bags.settings import BagSettings
from flows.catalogue import PIPELINES, pipeline_named
from flows.experts.settings import ExpertSettings
from flows.keywords.settings import KeywordSettings
from flows.run import begin
from flows.settings import compute_settings, describe, load
from flows.variants.settings import VariantSettings


def test_the_last_one_wins(tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text("fdr: 0.2\nask: 3\nseed: 1\n")
    found = load(KeywordSettings, str(config), ["ask=4", "seed=2"], seed=5)
    assert (found.fdr, found.ask, found.seed) == (0.2, 4, 5)


@pytest.mark.parametrize("text", ["17", "007", "no", "1e5", "2021-01-02", "null"])
def test_what_yaml_takes_for_no_text_is_text_where_text_is_expected(text):
    assert load(VariantSettings, None, [f"case={text}"]).case == text


def test_a_choice_may_be_a_number(tmp_path):
    assert load(VariantSettings, None, ["types=12"]).types == "12"
    config = tmp_path / "c.yaml"
    config.write_text("types: 12\n")
    assert load(VariantSettings, str(config), []).types == "12"


def test_every_setting_is_described():
    for name, bounds, default, meaning in describe(KeywordSettings):
        assert name
        assert bounds
        assert default
        assert meaning.endswith("."), name


def test_defaults_of_a_config_may_be_merged(tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text("{<<: {fdr: 0.2, seed: 1}, fdr: 0.3}\n")
    found = load(KeywordSettings, str(config), [])
    assert (found.fdr, found.seed) == (0.3, 1)


@pytest.mark.parametrize(
    ("limit", "size"),
    [("4GiB", 2**32), ("4 GiB", 2**32), ("1e9", 10**9), ("0.5GB", 5 * 10**8), ("600M", 6 * 10**8),
     ("400mib", 400 * 2**20), ("1ki", 1024), ("5 kB", 5000)],
)  # fmt: skip
def test_sizes_are_read_as_dask_reads_them(limit, size):
    from dask.utils import parse_bytes

    from flows.settings.base import _bytes

    assert _bytes(limit) == parse_bytes(limit) == size
    if size >= 2**28:
        assert compute_settings(1, None, limit).memory_limit == limit


def test_settings_know_which_of_them_were_given():
    """Not those that others of them decide, and not those that have their default."""
    assert KeywordSettings(model="vbss", fdr=0.1).changed() == {"model": "vbss"}
    assert KeywordSettings(model="vbss", unit="word", inference="mean_field").changed() == {
        "model": "vbss", "inference": "mean_field",
    }  # fmt: skip
    assert BagSettings(held_out=0.0, threshold=0.0).changed() == {"held_out": 0.0, "threshold": 0.0}
    assert [kind().changed() for kind in PIPELINES.values()] == [{}] * len(PIPELINES)


def test_what_the_input_says_was_not_given(tmp_path):
    pipeline_named("bags").simulate(str(tmp_path / "in"), 20, 1)
    given = BagSettings(seed=7)
    with begin("bags", str(tmp_path / "in"), str(tmp_path / "out"), given) as run:
        stages.check(run)
        assert run.settings.held_out is not None
        assert run.changed == {"seed": 7}


@pytest.mark.parametrize("yes", ["Yes", "1", "true"])
def test_a_positive_label_is_called_as_the_file_writes_it(tmp_path, yes):
    labels = [yes, {"Yes": "No", "1": "0", "true": "false"}[yes]]
    rows = [f"b{n},{labels[n % 2]},{n % 7}" for n in range(20) for _ in range(2)]
    (tmp_path / "in.csv").write_text("\n".join(["bag_id,label,x", *rows, ""]))
    with begin("bags", str(tmp_path / "in.csv"), str(tmp_path / "out"), BagSettings()) as run:
        stages.check(run)
        assert run.settings.positive_word == yes
        assert run.settings.positive == ()


def test_an_empty_setting_says_what_it_means_and_one_that_was_given_nothing():
    found = ExpertSettings().defaults()
    assert found["n_experts"] == "10 (default)"
    assert found["encoding"] == "default (UTF-8, or by their bytes)"
    assert found["categories"] == "none"
    assert "max_levels" not in found
    assert "n_experts" not in ExpertSettings(n_experts=3).defaults()
    assert ExpertSettings(inference="cavi").defaults()["n_experts"] == "5 (default)"
    assert BagSettings(model="vmmic").defaults()["inference"] == "collapsed (default)"
    assert BagSettings().defaults()["threshold"] == "none (default)"
    assert "threshold" not in BagSettings(threshold=2.0).defaults()
    assert VariantSettings().defaults()["bed"] == "none"


def test_a_setting_that_is_given_twice_is_said_to_be(caplog):
    assert load(KeywordSettings, None, ["ask=4", "ask=5"]).ask == 5
    assert caplog.messages == ["--set ask is given more than once: the last counts"]
