"""Help, completion and files of settings, by the real command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flows.catalogue import COMMANDS, PIPELINES
from flows.cli.help import EXAMPLES
from flows.settings import describe, load
from flows.settings.base import GROUPS, grouped
from tests.flows.commands import run

ROOT = Path(__file__).parents[2]
HEAVY = ("numpy", "scipy", "numba", "botocore", "pyarrow", "prefect", "distributed", "pandas")


# What only a report, a sampler or an object store needs: seconds and memory of every worker.
SELDOM = (
    "arviz", "sklearn", "matplotlib", "pandas", "scipy.stats", "scipy.cluster", "botocore",
    "prefect", "distributed",
)  # fmt: skip


def loads_none(code, modules):
    code += f"\nloaded = [name for name in {modules!r} if name in sys.modules]\n"
    code += "assert not loaded, loaded"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_help_loads_nothing_that_computes():
    code = (
        "import sys\nfrom flows.entry import main\n"
        f"for words in [[], *([name] for name in {[*PIPELINES]!r})]:\n"
        "    sys.argv = ['vbflows', *words, '--help']\n"
        "    try:\n        main()\n"
        "    except SystemExit as end:\n        assert not end.code, end.code\n"
    )
    loads_none(code, HEAVY)


def test_families_load_nothing_that_most_of_their_work_does_without():
    families = ", ".join(f"flows.{name}.family" for name in PIPELINES)
    loads_none(f"import sys, {families}, flows.fit.driver, flows.run", SELDOM)


def test_a_missing_file_is_reported_before_the_family_is_loaded(tmp_path):
    code = (
        "import sys\nfrom flows.entry import main\n"
        f"sys.argv = ['vbflows', 'keywords', {str(tmp_path / 'none.csv')!r}, 'out']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code == 2, end.code\n"
    )
    loads_none(code, ("numba", "scipy", "jinja2", "flows.keywords.family"))


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("option", ["-h", "--help-all"])
def test_help_of_a_pipeline_teaches_it(name, option, capsys, monkeypatch):
    """Help has what a first run needs, in 60 lines; --help-all has all."""
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run(capsys, name, option)
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    settings = PIPELINES[name]
    every = [setting for setting, _, _, _ in describe(settings)]
    wanted = settings.first if option == "-h" else every
    assert [one for one in every if f"\n  {one} " in out] == [one for one in every if one in wanted]
    if option == "-h":
        assert len(out.splitlines()) <= 60
        assert f"all {len(every)} settings: vbflows {name} --help-all" in out
    for rare in ("--workers", "--resume", "--encoding", "--json", "--strict"):
        assert (f"\n  {rare} " in out) == (option == "--help-all")
    places = [out.index(f"\n{heading}") for heading in ("What goes in", "Example", "Settings to")]
    assert places == sorted(places)
    assert f"documentation, in the sources: {settings.page}" in out
    assert (ROOT / settings.page).exists()
    assert all(line in out for line in settings.example)


def test_help_has_a_line_for_each_value_of_a_choice(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    _, short, _ = run(capsys, "help", "bags")
    assert "[auto, embedding, vmmic, gp_probit; default auto]" in " ".join(short.split())
    code, out, _ = run(capsys, "bags", "--help-all")
    assert code == 0
    lines = [line.strip() for line in out.splitlines()]
    for value in ("auto", "embedding", "vmmic", "gp_probit"):
        assert any(line.startswith(f"{value}: ") for line in lines)
    assert "empty; default empty" not in out
    assert "number: predicted as such (model auto or embedding)" in lines
    _, out, _ = run(capsys, "help")
    assert "Pipelines (vbflows PIPELINE --help" in out
    assert max(map(len, out.splitlines())) > 80


def test_help_names_signs_and_the_order_of_runs(capsys):
    text = dict((name, bounds) for name, bounds, _, _ in describe(PIPELINES["experts"]))
    assert text["thousands"] == "comma, point, space, apostrophe or empty"
    assert text["decimal"] == "point, comma or empty"
    _, out, _ = run(capsys, "compare", "-h")
    assert "The earlier run" in out
    assert "The later run" in out


def test_help_says_which_files_hold_a_table_and_how_rows_are_weighted(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for name in PIPELINES:
        said = " ".join(run(capsys, name, "-h")[1].split())
        assert ("Parquet, CSV, TSV" in said) == (name != "variants")
        assert ("(CSV and TSV are sample sheets)" in said) == (name == "variants")
        assert ("--column weight=YOURS" in said) == (name in ("features", "experts"))


def test_help_of_every_other_command_opens_with_an_example(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert set(EXAMPLES) == {"vbflows", *COMMANDS}
    for name, lines in EXAMPLES.items():
        code, out, _ = run(capsys, *([] if name == "vbflows" else [name]), "-h")
        assert code == 0
        after = [out.index(f"\n{one}:") for one in ("Options", "Arguments") if f"\n{one}:" in out]
        assert out.index("\nExample:\n  " + "\n  ".join(lines)) < min(after)


def test_the_command_alone_prints_its_help(capsys):
    code, out, err = run(capsys)
    assert (code, err) == (0, "")
    assert out.startswith("Usage: vbflows [OPTIONS] COMMAND [ARGS]...\n")


@pytest.mark.parametrize("name", PIPELINES)
def test_every_setting_is_in_one_group(name):
    settings = PIPELINES[name]
    members = [one for group in grouped(settings).values() for one in group]
    assert sorted(members) == sorted(settings.model_fields)
    assert len(settings.first) == 5
    for kind in settings.__mro__:
        named = vars(kind).get("groups", {})
        assert set(named) <= set(GROUPS)
        assert not {one for group in named.values() for one in group} - set(settings.model_fields)


@pytest.mark.parametrize("name", PIPELINES)
def test_a_file_of_settings_is_written_and_read(name, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(capsys, "init", name)
    assert code == 0
    assert f"vbflows {name} SOURCE TARGET --config {name}.yaml" in out
    settings = PIPELINES[name]
    assert load(settings, f"{name}.yaml", []) == settings()
    text = Path(f"{name}.yaml").read_text()
    Path("all.yaml").write_text(text.replace("#: ", ""))
    assert load(settings, "all.yaml", []) == settings()
    assert text.count("\n#: ") == len(settings.model_fields) - len(settings.first)
    code, _, err = run(capsys, "init", name)
    assert (code, "it is there already" in err) == (2, True)
    assert Path(f"{name}.yaml").read_text() == text


def test_help_has_the_options_that_a_pipeline_takes(capsys):
    for name in PIPELINES:
        _, out, _ = run(capsys, name, "--help-all")
        takes = "include" in PIPELINES[name].model_fields
        assert ("--include" in out) == takes


def test_columns_may_be_left_out_one_by_one(capsys, tmp_path):
    lines = ["id,a,b,c,d", *(f"r{i},{i % 2},{i % 3},{i % 4},{i % 5}" for i in range(30))]
    (tmp_path / "in.csv").write_text("\n".join(lines))
    code, out, _ = run(
        capsys, "check", "features", tmp_path / "in.csv", "--exclude", "a", "--exclude", "b,c",
    )  # fmt: skip
    assert code == 0
    assert "TARGET --exclude a --exclude b,c" in out
    assert not [line for line in out.splitlines() if line[:2] in ("a ", "b ", "c ")]


def test_a_percentage_is_read(tmp_path):
    from flows.keywords.settings import KeywordSettings

    given = load(KeywordSettings, None, ["unit=word", "keyword_rate=35%", "fdr= 5 %"])
    assert (given.keyword_rate, given.fdr) == (0.35, 0.05)
    config = tmp_path / "c.yaml"
    config.write_text("fdr: 12.5%\n")
    assert load(KeywordSettings, str(config), []).fdr == 0.125


@pytest.mark.thorough
def test_completion_knows_commands():
    def complete(*words):
        line = " ".join(("vbflows", *words))
        return subprocess.run(
            [sys.executable, "-c", "from flows.cli import main; main()"],
            env={**os.environ, "PYTHONPATH": str(ROOT), "_VBFLOWS_COMPLETE": "complete_bash",
                 "COMP_WORDS": line, "COMP_CWORD": str(len(words))},
            capture_output=True, text=True, check=False, timeout=280,
        ).stdout  # fmt: skip

    assert "keywords" in complete("keyw").split()
