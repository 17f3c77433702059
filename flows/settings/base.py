"""What every pipeline's settings have, and where the heavy work is done."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import fields
from typing import Annotated, Any, ClassVar, Self, get_args, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic_core import CoreSchema


class S3Access(BaseModel):
    """How object stores are reached; what is empty is taken from the environment (AWS_*)."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    endpoint_url: str | None = Field(
        None, description="Address of a store other than Amazon's, such as https://host:9000."
    )
    ca_file: str | None = Field(
        None, description="Certificates (PEM) that the store's own is checked against."
    )
    region: str | None = Field(None, description="Region of the buckets.")
    profile: str | None = Field(
        None, description="Profile of the AWS configuration files whose credentials are used."
    )
    anonymous: bool = Field(False, description="Read public buckets without credentials.")
    requester_pays: bool = Field(
        False, description="Pay for what is read from buckets that require it."
    )
    sse: str | None = Field(
        None, description="How the store encrypts what is written, such as AES256 or aws:kms."
    )
    sse_kms_key_id: str | None = Field(
        None, description="Key of the store's key management for it; with sse=aws:kms."
    )
    block: str | None = Field(
        None,
        description="Name of a Prefect Secret block with the credentials as JSON: "
        "aws_access_key_id, aws_secret_access_key and, where needed, aws_session_token.",
    )

    def environment(self) -> dict[str, str]:
        """Return these settings as environment variables."""
        variables = {
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_ENDPOINT_URL_S3": self.endpoint_url,
            "AWS_CA_BUNDLE": self.ca_file,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_PROFILE": self.profile,
            "AWS_NO_SIGN_REQUEST": "YES" if self.anonymous else None,
            "AWS_REQUEST_PAYER": "requester" if self.requester_pays else None,
            "VBFLOWS_S3_SSE": self.sse,
            "VBFLOWS_S3_SSE_KMS_KEY_ID": self.sse_kms_key_id,
        }
        return {name: value for name, value in variables.items() if value is not None}


_ADDRESS = re.compile(r"(tcp|tls)://[^\s/:]+:\d+/?|(tcp|tls)://\[[0-9a-fA-F:]+\]:\d+")

_SIZE = re.compile(r"(\d+\.?\d*|\.\d+)(e\d+)?\s*(?:([kmgtp]?)(i?)b?)", re.IGNORECASE)
_PERCENT = re.compile(r"\s*(\d{1,15}\.?\d{0,15}|\.\d{1,15})\s*%\s*")
_LEAST_MEMORY = 256 * 2**20  # bytes; a worker takes some half of it before it has done anything

# In the meaning of a setting what holds where it is empty.
_EMPTY = re.compile(r"[;.] (?:[Bb]y default|[Ee]mpty:|otherwise it is) (.+?)\.?(?:$|; |\. [A-Z])")

Probability = Annotated[float, Field(gt=0.0, lt=1.0)]


FIRST = "first"
GROUPS = {
    FIRST: "Settings to look at first",
    "model": "Settings of the model",
    "data": "Settings of the data",
    "output": "Settings of the output",
    "expert": "Advanced settings",
}
"""What settings are about, in the order of the help, and the heading of each group."""

_KINDS = {"integer": "number", "number": "number", "string": "text", "null": "default"}


class _Form:
    """What makes settings a form on Prefect's page: in the order of the help, choices in words."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        reference = handler(core)
        schema = handler.resolve_ref_schema(reference)
        fields = schema.get("properties", {})
        for position, name in enumerate(cls.order()):
            fields[name]["position"] = position
        for field in fields.values():
            for choice in field.get("anyOf", ()):
                choice.setdefault("title", _KINDS.get(choice.get("type", ""), "choice"))
        return reference

    @classmethod
    def order(cls) -> list[str]:
        """Return the names of the fields as people read them."""
        return list(cls.model_fields)  # type: ignore[attr-defined]


FILE, FOLDER = "FILE", "FOLDER"
"""Columns that every input has: the name of a row's file, without its ending, and its folder's."""


class _Names(dict[str, str]):
    """Names that are not changed, so that settings can be a key."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(sorted(self.items())))


class RunSettings(_Form, BaseModel):
    """What every pipeline has.

    The class of a family's settings also says what the pipeline is, so that it can be listed
    without loading what it needs to run.

    Attributes
    ----------
    question
        What it answers, for the list of commands.
    family
        The module that holds the family as ``FAMILY``.
    answer
        The module that holds the class of its answers as ``Answer``.
    reads
        Where the table that it reads is declared, as ``module:NAME``.
    example
        Commands that run as they are, one after the other.
    own_file
        A command with a file of the user's, whose columns have names of their own.
    page
        Its page of the documentation.
    flow
        The entry point of its Prefect flow, for schedules; ours are in `flows.pipelines`.
    first
        The settings that matter first.
    usual_sweeps
        Of a fit, for an estimate of its time.
    groups
        What else there is, for help, by what it is about: data, output, or expert; what no group
        names is about the model.
    """

    question: ClassVar[str] = ""
    family: ClassVar[str] = ""
    answer: ClassVar[str] = ""
    reads: ClassVar[str] = ""
    example: ClassVar[tuple[str, ...]] = ()
    own_file: ClassVar[str] = ""
    page: ClassVar[str] = ""
    flow: ClassVar[str] = ""
    first: ClassVar[tuple[str, ...]] = ()
    usual_sweeps: ClassVar[int] = 100
    groups: ClassVar[dict[str, tuple[str, ...]]] = {
        "data": (
            *("columns", "list_separator", "encoding", "skip_rows", "sheet", "strict"),
            *("rows_per_partition", "partitions"),
        ),
        "expert": ("seed", "max_iter", "tol", "checkpoint_every"),
    }

    model_config = ConfigDict(
        frozen=True, extra="forbid", protected_namespaces=(), allow_inf_nan=False, defer_build=True
    )

    def decided(self) -> dict[str, Any]:
        """Return what the other settings decide for those that may be empty."""
        return {}

    def defaults(self) -> dict[str, str]:
        """Return what each setting means that is empty, as it is by default."""
        decided, meanings = self.decided(), {}
        for name, field in type(self).model_fields.items():
            if getattr(self, name) == field.default and field.default in (None, (), "", {}):
                words = _EMPTY.search(field.description or "")
                meanings[name] = f"default ({words[1]})" if words else "none"
                meanings[name] = f"{decided[name]} (default)" if name in decided else meanings[name]
        return meanings

    def changed(self) -> dict[str, Any]:
        """Return the settings that give these: no defaults, nothing that the others decide."""
        kind = type(self)
        defaults = kind().model_dump()
        changed = {n: value for n, value in self.model_dump().items() if value != defaults[n]}
        for name in list(changed):
            rest = {n: value for n, value in changed.items() if n != name}
            with suppress(ValidationError):
                if kind.model_validate(rest) == self:
                    changed = rest
        return changed

    partitioning: ClassVar[frozenset[str]] = frozenset()
    """Settings that decide which partitions there are, and nothing of what one is made into."""

    @classmethod
    def order(cls) -> list[str]:
        """Return the names of the settings: those that matter first, and so on."""
        return [name for members in grouped(cls).values() for name in members]

    @model_validator(mode="before")
    @classmethod
    def _with_shares(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        return {name: _as_meant(cls, name, value) for name, value in values.items()}

    seed: int = Field(0, ge=0, description="Seed of all random numbers.")
    max_iter: int = Field(1000, ge=1, description="Most sweeps: passes over the data.")
    tol: float = Field(
        1e-8,
        gt=0.0,
        lt=1.0,
        description="Stop where the rise of the bound that is still expected is less "
        "than this share of the bound.",
    )
    partitions: int | None = Field(
        None,
        ge=1,
        description="Blocks that the rows are cut into; by default rows / rows_per_partition.",
    )
    rows_per_partition: int = Field(
        1000, ge=1, description="Rows (documents, locations, bags) in a partition."
    )
    columns: Annotated[dict[str, str], AfterValidator(_Names)] = Field(
        {},
        validate_default=True,
        description="What the input calls columns that vbflows calls otherwise, such as "
        "text: Abstract; features: f* makes one list of all columns that begin with f, and "
        "features: CD3,CCR7 of these two.",
    )
    list_separator: str = Field(
        ";", min_length=1, description="Separator of the entries of a list in a CSV cell."
    )
    encoding: str | None = Field(
        None,
        description="Encoding of text files, such as cp1252; by default UTF-8, or by their bytes.",
    )
    skip_rows: int | None = Field(
        None,
        ge=0,
        description="Rows below the header that are not read; by default those that are a survey's "
        "questions, as Qualtrics and SurveyMonkey write them.",
    )
    sheet: str | None = Field(
        None, description="Sheet of a workbook that is read; by default the first one with a table."
    )
    strict: bool = Field(False, description="Stop if any row, column or value would not be used.")
    checkpoint_every: int | None = Field(
        None,
        ge=1,
        description="Sweeps between two checkpoints, from which an interrupted run goes on; by "
        "default one every 30 seconds.",
    )


def in_order(kind: type) -> list[str]:
    """Return the names of settings as people read them.

    Those that the pipeline's own class declares come first, those that every run has last.
    """
    if not issubclass(kind, BaseModel):
        return []
    common = RunSettings.model_fields if issubclass(kind, RunSettings) else {}
    rank = {name: place for place, name in enumerate(kind.__annotations__)}
    return sorted(kind.model_fields, key=lambda name: (name in common, rank.get(name, len(rank))))


def grouped(settings: type[RunSettings]) -> dict[str, list[str]]:
    """Return the names of settings by group, those that matter first as a group of their own.

    >>> list(grouped(RunSettings))
    ['data', 'expert']
    """
    group = dict.fromkeys(settings.model_fields, "model")
    for kind in reversed(settings.__mro__):
        for name, members in vars(kind).get("groups", {}).items():
            group.update(dict.fromkeys(members, name))
    group.update(dict.fromkeys(settings.first, FIRST))
    groups: dict[str, list[str]] = {name: [] for name in GROUPS}
    for name in (*settings.first, *in_order(settings)):
        if name in group:
            groups[group.pop(name)].append(name)
    return {name: members for name, members in groups.items() if members}


class ComputeSettings(_Form, BaseModel):
    """Where the heavy work is done: in process, on local workers or on a running cluster."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    workers: int | None = Field(
        None,
        ge=1,
        description="Worker processes on this machine; by default everything in this one.",
    )
    scheduler: str | None = Field(
        None,
        description="Address of a running Dask scheduler, such as tcp://host:8786; instead of "
        "workers.",
    )
    memory_limit: str | None = Field(
        None,
        description="Memory of one worker process, such as 4GiB and at least 256MiB; by default "
        "its share of the machine.",
    )
    reports: str | None = Field(
        None,
        pattern=r"^https?://[^\s<>()]+$",
        description="Address under which a browser finds the target, such as "
        "https://reports.example/keywords: Prefect's page links the report there; empty: that of "
        "the environment, VBFLOWS_REPORTS.",
    )
    s3: S3Access = Field(
        S3Access.model_construct(), description="How s3:// is reached; empty: the environment."
    )

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.workers is not None and self.scheduler is not None:
            raise ValueError("both workers and a scheduler are given; give one of them")
        if self.scheduler is not None and not _ADDRESS.fullmatch(self.scheduler):
            raise ValueError(
                f"the scheduler {self.scheduler!r} is no address; write one such as "
                "tcp://host:8786 or tls://host:8786"
            )
        return self

    @model_validator(mode="after")
    def _memory_of_workers(self) -> Self:
        if self.memory_limit is None:
            return self
        if self.workers is None:
            raise ValueError("a memory limit is given without workers, whose memory it limits")
        size = _bytes(self.memory_limit)
        if size is None:
            raise ValueError(
                f"the memory limit {self.memory_limit!r} is no size; write one such as 4GiB"
            )
        if size < _LEAST_MEMORY:
            raise ValueError(
                f"the memory limit {self.memory_limit!r} is {size:,.0f} bytes, too little for a "
                "worker; give it at least 256MiB"
            )
        return self


_LIST_OF_TEXTS = tuple[str, ...]


def _as_meant(settings: type[BaseModel], name: str, value: Any) -> Any:
    """Read lists and percentages as people type them: a,b as two texts, 35% as 0.35."""
    field = settings.model_fields.get(name)
    if name == "columns" and isinstance(value, dict):
        several = {role: names for role, names in value.items() if isinstance(names, list | tuple)}
        return value | {role: ",".join(map(str, names)) for role, names in several.items()}
    if field is not None and field.annotation == _LIST_OF_TEXTS:
        if isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
        if isinstance(value, list | tuple):
            return [_plain(entry) for entry in value]
        return [_plain(value)] if _is_number(value) else value
    if field is not None and field.annotation == (str | None) and _is_number(value):
        return _plain(value)
    return _share(settings, name, value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _plain(value: Any) -> Any:
    """Return a number as the text that was typed."""
    if isinstance(value, float):
        return f"{value:.17g}"
    return str(value) if _is_number(value) else value


def _share(settings: type[BaseModel], name: str, value: Any) -> Any:
    """Read 35% as 0.35 where the setting is a number that need not be whole."""
    percent = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    field = settings.model_fields.get(name)
    if percent is None or field is None:
        return value
    kinds = get_args(field.annotation) or (field.annotation,)
    return float(f"{percent[1]}e-2") if float in kinds else value


def _bytes(text: str) -> float | None:
    """Return the bytes of a size such as 4GiB; None if it is none."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or (match[4] and not match[3]):
        return None
    power = " kmgtp".index(match[3].lower() or " ")
    return float(float(match[1] + (match[2] or "")) * (1024 if match[4] else 1000) ** power)


def declared(*options: type, base: type[RunSettings] = RunSettings) -> type[RunSettings]:
    """Return the settings of a run with the options of models, each with its default and range.

    Parameters
    ----------
    options
        Dataclasses whose fields are made by `vbmodels.core.options.option`. What they say of a
        setting that every run has replaces what is said there.
    base
        Settings that the pipeline has beyond those.
    """
    declarations: dict[str, Any] = {}
    for kind in options:
        hints = get_type_hints(kind)
        for option in fields(kind):
            ends = option.metadata["range"].given()
            field = Field(option.default, description=option.metadata["meaning"], **ends)
            declarations[option.name] = (hints[option.name], field)
    return create_model("Declared", __base__=base, **declarations)
