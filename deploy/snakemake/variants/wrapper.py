"""Snakemake wrapper of `vbflows variants`: reads of a case and a control to a VCF."""

from __future__ import annotations

import csv
import glob
import os
import shutil
import subprocess
import tempfile

snakemake = globals()["snakemake"]  # which Snakemake puts here


def files(name):
    """Return the files of a named input."""
    found = snakemake.input.get(name, [])
    return [found] if isinstance(found, str) else list(found)


settings = {"fasta": snakemake.input.fasta} | dict(snakemake.params.get("settings", {}))
if snakemake.input.get("bed"):
    settings["bed"] = snakemake.input.bed
reads = {sample: files(sample) for sample in ("case", "control")}
if not reads["control"]:
    settings["control"] = ""

with tempfile.TemporaryDirectory() as folder:
    sheet = os.path.join(folder, "samples.csv")
    with open(sheet, "w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["sample", "replicate", "path"])
        for sample, own in reads.items():
            lines.writerows([sample, i, os.path.abspath(path)] for i, path in enumerate(own, 1))
    target = os.path.join(folder, "results")
    command = ["vbflows", "variants", sheet, target]
    if snakemake.threads > 1:
        command += ["--workers", str(snakemake.threads)]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    if snakemake.log:
        with open(snakemake.log[0], "w") as log:
            subprocess.run(command, check=True, stdout=log, stderr=subprocess.STDOUT)
    else:
        subprocess.run(command, check=True)
    (run,) = glob.glob(os.path.join(target, "runs", "*"))
    shutil.copy(os.path.join(run, "variants.vcf.gz"), snakemake.output.vcf)
    shutil.copy(os.path.join(run, "variants.vcf.gz.tbi"), f"{snakemake.output.vcf}.tbi")
    for name, made in (
        ("report", "report.html"), ("record", "run.json"), ("callable", "callable.bed"),
    ):  # fmt: skip
        if snakemake.output.get(name):
            shutil.copy(os.path.join(run, made), snakemake.output.get(name))
