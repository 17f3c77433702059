"""What is wrong with a file of documents: every fault, before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.data.names import repeated_names
from flows.data.row_faults import invalid_text, row_faults
from flows.data.slabs import joined_faults
from flows.faults import Fault
from flows.keywords.schema import DOCUMENTS
from flows.keywords.text import OTHER, pos_code

KNOWN_TAGS = "Penn or universal tags (NN, JJ, VB; NOUN, ADJ, VERB)"

_TYPES = {column.name: column.type for column in DOCUMENTS.columns}


def check_documents(table: pa.Table, file: str) -> list[Fault]:
    """List all faults of one file of documents.

    A document without candidate words, or with a known keyword that it does not contain, is
    no fault: `keywords.prepare` counts and names them.

    Parameters
    ----------
    table
        The whole file.
    file
        Its name, for messages.
    """
    faults = DOCUMENTS.faults(table.schema, file)
    wrong = {fault.column for fault in faults}
    if not {"text", "tokens"} & set(table.column_names):
        faults.append(
            Fault(
                file=file,
                expected="a column text or a column tokens",
                found=f"only {', '.join(table.column_names) or 'no columns'}",
                remedy="give the documents as running text or as lists of words",
            )
        )
    if not len(table):
        faults.append(
            Fault(
                file=file,
                expected="at least one document",
                found="0 rows",
                remedy="leave the file out or fill it",
            )
        )
        return faults
    plain = {}
    for name in _TYPES:
        if name not in table.column_names or name in wrong:
            continue
        broken = invalid_text(table[name], name, file)
        faults += broken
        if not broken:
            plain[name] = table[name].cast(_TYPES[name]).combine_chunks()
    return faults + _names(plain, file) + _contents(plain, file)


def joined_documents(
    found: Sequence[tuple[int, Sequence[Fault]]], names: Sequence[Sequence[str]], file: str
) -> list[Fault]:
    """Join the faults of a file's slabs, with what only the whole file tells.

    Parameters
    ----------
    found
        (first row, faults) of every slab.
    names
        The doc_ids of every slab.
    """
    # Tags are unknown where no slab has one that is known.
    tagged = all(any(f.expected == KNOWN_TAGS for f in faults) for _, faults in found)
    kept = [(row, [f for f in own if tagged or f.expected != KNOWN_TAGS]) for row, own in found]
    again = []
    if len(names) == len(found):
        again = repeated_names(names, file, "doc_id", "give every document its own name")
    return joined_faults([*kept, (0, again)] if again else kept)


def _names(plain: dict[str, pa.Array], file: str) -> list[Fault]:
    """Documents without a name or with one that an earlier row has."""
    if "doc_id" not in plain:
        return []
    names = plain["doc_id"]
    empty = pc.or_kleene(pc.is_null(names), pc.equal(pc.fill_null(names, ""), ""))
    faults = row_faults(
        np.flatnonzero(empty),
        lambda row: Fault(
            file=file,
            column="doc_id",
            expected="the name of a document",
            found="null" if names[row].as_py() is None else "an empty text",
            row=row + 1,
            remedy="give every document a name",
        ),
    )
    codes = names.dictionary_encode().indices.fill_null(-1).to_numpy()
    _, first, back = np.unique(codes, return_index=True, return_inverse=True)
    again = np.flatnonzero((first[back] != np.arange(len(codes))) & ~np.asarray(empty))
    return faults + row_faults(
        again,
        lambda row: Fault(
            file=file,
            column="doc_id",
            expected="a name used once",
            found=f"{names[row].as_py()!r}, which row {first[back[row]] + 1} has too",
            row=row + 1,
            remedy="give every document its own name",
        ),
    )


def _contents(plain: dict[str, pa.Array], file: str) -> list[Fault]:
    """Rows without text, lists of unequal length or with nulls, and unknown tags."""
    faults = []
    given = [pc.is_valid(plain[name]) for name in ("text", "tokens") if name in plain]
    if given:
        missing = ~np.asarray(given[0]) if len(given) == 1 else ~np.asarray(pc.or_(*given))
        faults += row_faults(
            np.flatnonzero(missing),
            lambda row: Fault(
                file=file,
                column="text" if "text" in plain else "tokens",
                expected="a text or tokens",
                found="null",
                row=row + 1,
                remedy="give the document its text, or leave it out",
            ),
        )
    for name in ("tokens", "pos", "sentence", "keywords"):
        if name in plain:
            faults += _nulls_inside(plain[name], name, file)
    for name in ("pos", "sentence"):
        if name in plain:
            faults += _lengths(plain, name, file)
    return faults + _tags(plain, file)


def _nulls_inside(column: pa.ListArray, name: str, file: str) -> list[Fault]:
    parents = pc.list_parent_indices(column)
    rows = np.unique(np.asarray(parents)[np.asarray(pc.is_null(column.flatten()))])
    return row_faults(
        rows,
        lambda row: Fault(
            file=file,
            column=name,
            expected="a list without nulls",
            found=f"a null at place {column[row].as_py().index(None) + 1}",
            row=row + 1,
            remedy="leave the null out or fill it",
        ),
    )


def _lengths(plain: dict[str, pa.Array], name: str, file: str) -> list[Fault]:
    """Lists beside the tokens that have another length than the tokens."""
    if "tokens" not in plain:
        return []
    sizes = [
        pc.fill_null(pc.list_value_length(plain[column]), -1).to_numpy(zero_copy_only=False)
        for column in ("tokens", name)
    ]
    return row_faults(
        np.flatnonzero((sizes[1] >= 0) & (sizes[0] != sizes[1])),
        lambda row: Fault(
            file=file,
            column=name,
            expected=f"{max(sizes[0][row], 0)} entries, one for each of the tokens",
            found=str(sizes[1][row]),
            row=row + 1,
            remedy=f"give each token its {name}, or leave the list null",
        ),
    )


def _tags(plain: dict[str, pa.Array], file: str) -> list[Fault]:
    """Tags of which none is a noun, adjective or verb in a tag set that we know."""
    if "pos" not in plain:
        return []
    tags = pc.unique(plain["pos"].flatten()).drop_null().to_pylist()
    if not tags or any(pos_code(tag) != OTHER for tag in tags):
        return []
    return [
        Fault(
            file=file,
            column="pos",
            expected=KNOWN_TAGS,
            found=", ".join(repr(tag) for tag in sorted(tags)[:5]),
            remedy="translate the tags, or leave the column out to take every word",
        )
    ]
