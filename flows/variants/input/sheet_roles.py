"""What a sample sheet says of the settings: the roles of its samples, and the reference's file."""

from __future__ import annotations

import os
from collections.abc import Sequence

from flows import storage
from flows.faults import InputError
from flows.variants.input.sample_sheet import ROLES, Alignment, role_of_name
from flows.variants.reads.alignments import fasta_files
from flows.variants.settings import VariantSettings


def settings_of_sheet(
    sheet: str, lines: Sequence[Alignment], settings: VariantSettings
) -> dict[str, str]:
    """Return the settings that a sheet says; none where it says none.

    The samples of each role by the column ``role``; without one by their names; a sample that is
    alone in the sheet is the case, without a control. The reference is the only FASTA in the
    sheet's folder. What a setting names stays: of several cases, say, the one named. Where none is
    named, all of them are cases of one run.

    Raises `InputError` if several samples are cases, and a setting names another one.
    """
    said = {}
    if settings.fasta is None and (fasta := only_fasta(os.path.dirname(sheet))):
        said["fasta"] = fasta
    samples = {line.sample: line.role for line in lines}
    if any(samples.values()):
        return said | _by_roles(samples, settings)
    fields = type(settings).model_fields
    named = ("case", "cases", "control", "panel")
    given = any(getattr(settings, name) != fields[name].default for name in named)
    if given or settings.case in samples:
        alone = list(samples) == [settings.case] and settings.control == fields["control"].default
        return said | ({"control": ""} if alone and not given else {})
    if len(samples) == 1:
        return said | {"case": next(iter(samples)), "control": ""}
    return said | _by_roles(roles_by_name(list(samples)), settings)


def _by_roles(samples: dict[str, str], settings: VariantSettings) -> dict[str, str]:
    of = {role: [s for s, own in samples.items() if own == role] for role in ROLES[1:]}
    said: dict[str, str] = {}
    if of["case"] and settings.case not in of["case"] and not settings.several:
        if len(of["case"]) > 1:
            if settings.case != type(settings).model_fields["case"].default:
                raise InputError.of(
                    file="settings",
                    column="case",
                    expected="the name of one of the sheet's cases",
                    found=f"{settings.case!r}, and the role case of {', '.join(of['case'])}",
                    remedy="name one of them, or leave case out for a run of all",
                )
            said["cases"] = ",".join(of["case"])
        else:
            said["case"] = of["case"][0]
    if of["control"] and settings.control not in of["control"]:
        said["control"] = of["control"][0]
    elif (of["panel"] or list(samples) == of["case"][:1]) and settings.control not in samples:
        said["control"] = ""
    if of["panel"] and not settings.members:
        said["panel"] = ",".join(of["panel"])
    return said


def roles_by_name(samples: Sequence[str]) -> dict[str, str]:
    """Return the role of every sample by the words in its name; empty where any is unclear.

    >>> roles_by_name(["patient7_tumour", "patient7_normal"])
    {'patient7_tumour': 'case', 'patient7_normal': 'control'}
    >>> roles_by_name(["ann", "bob_normal"])
    {}
    """
    roles = {}
    for sample in samples:
        role = role_of_name(sample)
        if role is None or (role == "case" and "," in sample):
            return {}
        roles[sample] = role
    return roles if list(roles.values()).count("control") == 1 < len(roles) else {}


def only_fasta(folder: str) -> str | None:
    """Return the FASTA of a folder; None where there is none, or more than one."""
    found = fasta_files(folder)
    return found[0] if len(found) == 1 else None


def inferred(folder: str, lines: Sequence[Alignment], settings: VariantSettings) -> list[str]:
    """Say which of the settings were taken from the sheet's folder and its samples' names."""
    said = []
    if settings.fasta is not None and settings.fasta == only_fasta(folder):
        name = storage.shown(settings.fasta).rpartition("/")[2]
        said.append(
            f"The reference is {name}, the only FASTA in the sheet's folder; --set fasta= names "
            "another."
        )
    names = [line.sample for line in lines]
    roles = {} if any(line.role for line in lines) else roles_by_name(list(dict.fromkeys(names)))
    tested = [name for name, role in roles.items() if role == "case"]
    by_name = tested == settings.tested and roles.get(settings.control or "") == "control"
    if roles and by_name and not {"case", "control"} >= set(roles):
        are = "is the case" if len(tested) == 1 else "are cases"
        said.append(
            f"By their names {', '.join(tested)} {are} and {settings.control} the control; a "
            "column role (case, control, panel) says otherwise."
        )
    return said
