"""The public file of NESARC wave 1 as tables of 52 criteria or 20 diagnoses.

Variables are those of the public codebook: 1 is yes, 2 (0 in derived diagnoses) is no, 9 is
unknown and becomes missing, and a question that was skipped, because an earlier answer ruled
it out, is no. A criterion with several questions is met when any of them is.

The criteria follow appendix D of Ruiz et al. (2014). The behaviour questions (S10Q1A..) decide;
the follow-ups on trouble that it caused (S10Q1B..) do not. The text writes S11Q1A.. where the
file has S11AQ1A... The diagnoses are the 20 of section 5.2, over the lifetime; an alcohol or drug
diagnosis is there when either the last year's or the earlier one is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.faults import Fault, InputError
from vbmodels.core.state import BoolArray

Form = Literal["table", "nesarc_criteria", "nesarc_diagnoses"]
Parts = tuple[tuple[str, str], ...]
"""(variable, its codes that mean yes)"""
IDENTITY = "IDNUM"


def _questions(section: str, numbers: Sequence[int]) -> Parts:
    return tuple((f"{section}{n}", "1") for n in numbers)


def _personality() -> dict[str, Parts]:
    """Avoidant to histrionic: question numbers of S10Q1A."""
    groups: dict[str, list[tuple[int, ...]]] = {
        "AvPD": [(n,) for n in range(1, 8)],
        "DPD": [(n,) for n in range(8, 16)],
        "OCPD": [(16, 17), *[(n,) for n in range(18, 24)], (24, 25)],
        "PPD": [*[(n,) for n in range(26, 30)], (30, 31), (32,), (33,)],
        "SPD": [(45, 46), (47,), (48,), (50,), (43,), (51, 52), (49, 53)],
        "HPD": [(54, 56), (58, 60), (55,), (61,), (64,), (59, 62), (63,), (57,)],
    }
    return {
        f"{name}{i}": _questions("S10Q1A", numbers)
        for name, criteria in groups.items()
        for i, numbers in enumerate(criteria, start=1)
    }


CRITERIA: dict[str, Parts] = {
    **_personality(),
    "APD1": _questions("S11AQ1A", range(20, 26)),
    "APD2": _questions("S11AQ1A", range(11, 14)),
    "APD3": _questions("S11AQ1A", range(8, 11)),
    "APD4": _questions("S11AQ1A", [17, 18, *range(26, 34)]),
    "APD5": _questions("S11AQ1A", range(14, 17)),
    "APD6": _questions("S11AQ1A", [6, 19]),
    "APD7": (("S11AQ8A", "1"), ("S11AQ8B", "1")),
}

_DRUGS = ("STIM", "PAN", "SED", "TRAN", "COC", "SOL", "HAL", "MAR", "HER", "OTHB")
_DRUG_VARIABLES = tuple(f"{drug}{when}ABDEP" for drug in _DRUGS for when in ("12", "P12"))
_ALCOHOL = ("ALCABDEP12DX", "ALCABDEPP12DX")

DIAGNOSES: dict[str, Parts] = {
    "alcohol_abuse": tuple((v, "13") for v in _ALCOHOL),
    "alcohol_dependence": tuple((v, "23") for v in _ALCOHOL),
    "drug_abuse": tuple((v, "13") for v in _DRUG_VARIABLES),
    "drug_dependence": tuple((v, "23") for v in _DRUG_VARIABLES),
    "nicotine_dependence": (("TABLIFEDX", "1"),),
    "major_depression": (("MAJORDEPLIFE", "1"),),
    "bipolar": (("NMANDXLIFE", "1"), ("NHYPOMANLIFE", "1")),
    "dysthymia": (("DYSLIFE", "1"),),
    "panic": (("PANLIFE", "1"), ("APANLIFE", "1")),
    "social_anxiety": (("SOCPDLIFE", "1"),),
    "specific_phobia": (("SPHOBLIFE", "1"),),
    "generalised_anxiety": (("GENAXLIFE", "1"),),
    "pathological_gambling": (("GAMBEVDX", "1"),),
    "avoidant": (("AVOIDPDX2", "1"),),
    "dependent": (("DEPPDDX2", "1"),),
    "obsessive_compulsive": (("OBCOMDX2", "1"),),
    "paranoid": (("PARADX2", "1"),),
    "schizoid": (("SCHIZDX2", "1"),),
    "histrionic": (("HISTDX2", "1"),),
    "antisocial": (("ANTISOCDX2", "1"),),
}


def read_nesarc(table: pa.Table, form: Form, file: str) -> pa.Table:
    """Return ``id`` and one column of yes and no a criterion or diagnosis.

    A table that has all the criteria (or diagnoses) already is returned as it is.

    Raises
    ------
    InputError
        Naming every variable that is not there, or holds something else than codes.
    """
    wanted = CRITERIA if form == "nesarc_criteria" else DIAGNOSES
    if set(wanted) <= set(table.column_names):
        kept = ["id"] if "id" in table.column_names else []
        return table.select([*kept, *wanted])
    there = {name.upper(): name for name in table.column_names}
    needed = dict.fromkeys(variable for parts in wanted.values() for variable, _ in parts)
    absent = [variable for variable in needed if variable not in there]
    if absent:
        raise InputError(
            [
                Fault(
                    file=file,
                    column=variable,
                    expected=f"a variable of NESARC wave 1 ({form})",
                    found="none of that name",
                    remedy="give the public file with its own names, or read it as a table",
                )
                for variable in absent
            ]
        )
    text, faults = {}, []
    for variable in needed:
        column = table[there[variable]]
        try:
            text[variable] = _codes(column)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            found = f"type {column.type} ({str(error).splitlines()[0]})"
            faults.append(Fault(file, "codes, as whole numbers or text", found, there[variable]))
    if faults:
        raise InputError(faults)
    columns = {
        name: _met([(text[v], codes) for v, codes in parts]) for name, parts in wanted.items()
    }
    if IDENTITY in there:
        columns = {"id": table[there[IDENTITY]].cast(pa.string()), **columns}
    return pa.table(columns)


def _codes(column: pa.ChunkedArray) -> pa.Array:
    """Return codes as text: whole numbers without a point, blanks as null."""
    if pa.types.is_floating(column.type):
        column = column.cast(pa.int64())
    text = pc.utf8_trim_whitespace(column.cast(pa.string()))
    blank = pc.or_(pc.equal(text, ""), pc.equal(text, "BL"))
    return pc.if_else(blank, pa.scalar(None, pa.string()), text).combine_chunks()


def _met(parts: Sequence[tuple[pa.Array, str]]) -> pa.Array:
    """Yes if any question says so, else unknown if any is unknown, else no."""
    yes: BoolArray = np.zeros(len(parts[0][0]), dtype=bool)
    unknown = yes.copy()
    for text, codes in parts:
        yes |= np.asarray(pc.fill_null(pc.is_in(text, value_set=pa.array(list(codes))), False))
        unknown |= np.asarray(pc.fill_null(pc.equal(text, "9"), False))
    answer = np.where(yes, "yes", "no")
    return pa.array(answer, pa.string(), mask=~yes & unknown)
