"""The Nextflow module and the Snakemake wrapper: what they name exists, and the wrapper runs."""

import os
import re
import sys
import tomllib
from types import SimpleNamespace

import pysam
import pytest
import yaml

from tests.deploy.conftest import DEPLOY, PATH, ROOT, run, tool
from tests.flows.variants.variant_files import write_reads

MODULE = DEPLOY / "nextflow" / "vbflows" / "variants"
WRAPPER = DEPLOY / "snakemake" / "variants"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
TEXT = (MODULE / "main.nf").read_text()


VBFLOWS = f"""#!/bin/sh
exec {sys.executable} -c 'from flows.cli import main; main()' "$@"
"""


class Named(dict):
    """What Snakemake hands on: by name as an attribute too."""

    __getattr__ = dict.__getitem__


def block(name, text=TEXT):
    """Return the lines of a process from one of its parts to the next."""
    return re.search(rf"^    {name}:\n(.*?)(?=^    [a-z]+:\n|^}})", text, re.M | re.S)[1]


@pytest.mark.parametrize("file", [MODULE / "environment.yml", WRAPPER / "environment.yaml"])
def test_environments_name_this_version(file):
    wanted = yaml.safe_load(file.read_text())["dependencies"]
    assert wanted[-1] == {"pip": [f"vbflows[genomics]=={VERSION}"]}
    assert f'container "vbflows:{VERSION}"' in TEXT


def test_nextflow_takes_the_module(tmp_path):
    """Where Nextflow is installed its stub runs."""
    nextflow = tool("nextflow")
    (tmp_path / "main.nf").write_text(
        f"include {{ VBFLOWS_VARIANTS }} from '{MODULE}/main.nf'\n"
        "workflow { VBFLOWS_VARIANTS([[id: 'a'], file('a.bam'), file('a.bai'), [], []], "
        "[[id: 'r'], file('r.fa'), file('r.fai')], []) }\n"
    )
    for name in ("a.bam", "a.bai", "r.fa", "r.fai"):
        (tmp_path / name).touch()
    done = run(nextflow, "run", "main.nf", "-stub", cwd=tmp_path)
    assert done.returncode == 0, done.stdout


@pytest.mark.thorough
def test_the_module_s_sheet_is_one_that_vbflows_reads(tmp_path):
    """The shell of the script, with its variables filled in, from sheet to the moved files."""
    write_reads(tmp_path)
    body = block("script").split('"""')[1]
    values = {
        r"${rows.join('\n    ')}": "case,1,a.bam\n    control,1,b.bam", "${prefix}": "p",
        "${fasta}": "ref.fa", "${intervals}": "--set region=chr1:1-40", "${alone}": "",
        "${args}": "--set max_iter=2", "${task.process}": "VBFLOWS",
    }  # fmt: skip
    for name, value in values.items():
        assert name in body
        body = body.replace(name, value)
    shell = re.sub(r"^    ", "", body.replace("\\\\", "\\").replace(r"\$", "$"), flags=re.M)
    assert "${" not in shell
    (tmp_path / "vbflows").write_text(VBFLOWS)
    (tmp_path / "vbflows").chmod(0o755)
    there = {"PATH": f"{tmp_path}{os.pathsep}{PATH}", "PYTHONPATH": str(ROOT)}
    done = run("bash", "-euo", "pipefail", "-c", shell, cwd=tmp_path, env=os.environ | there)
    assert done.returncode == 0, done.stderr
    left = {path.name for path in tmp_path.iterdir()}
    assert {"p.vcf.gz", "p.vcf.gz.tbi", "p.loci", "p.detection", "p.html", "p.json",
            "p.callable.bed"} <= left  # fmt: skip
    assert yaml.safe_load((tmp_path / "versions.yml").read_text()) == {
        "VBFLOWS": {"vbflows": VERSION}
    }


@pytest.mark.thorough
def test_the_wrapper_leaves_what_is_requested(tmp_path, monkeypatch):
    write_reads(tmp_path)
    ours = tmp_path / "bin"
    ours.mkdir()
    (ours / "vbflows").write_text(VBFLOWS)
    (ours / "vbflows").chmod(0o755)
    monkeypatch.setenv("PATH", f"{ours}{os.pathsep}{PATH}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    meta = yaml.safe_load((WRAPPER / "meta.yaml").read_text())
    outputs = {"vcf": "v.vcf.gz", "report": "r.html", "record": "r.json", "callable": "c.bed"}
    assert [next(iter(one)) for one in meta["output"]] == list(outputs)
    snakemake = SimpleNamespace(
        input=Named(case=str(tmp_path / "a.bam"), control=[str(tmp_path / "b.bam")],
                    fasta=str(tmp_path / "ref.fa")),
        output=Named({name: str(tmp_path / made) for name, made in outputs.items()}),
        params=Named(settings={"max_iter": 2, "region": "chr1:1-40"}),
        threads=1, log=[str(tmp_path / "log")],
    )  # fmt: skip
    code = compile((WRAPPER / "wrapper.py").read_text(), "wrapper.py", "exec")
    exec(code, {"snakemake": snakemake})
    assert all((tmp_path / made).exists() for made in outputs.values())
    with pysam.VariantFile(str(tmp_path / "v.vcf.gz")) as file:
        assert list(file.fetch("chr1")) == []  # by its index
