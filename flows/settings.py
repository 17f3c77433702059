"""Settings of every pipeline: they drive the command line, the config file and the docs alike.

A settings object is frozen and refuses names that it does not know. Each field states its
meaning, default and range once, here.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from flows.faults import Fault, InputError
from vbmodels.mil.gp_features import KernelOptions

_ADDRESS = re.compile(r"(tcp|tls|ucx|ws|wss)://[^\s/:]+:\d+/?|(tcp|tls)://\[[0-9a-fA-F:]+\]:\d+")

Probability = Annotated[float, Field(gt=0.0, lt=1.0)]


class RunSettings(BaseModel):
    """What every pipeline has."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    seed: int = Field(0, ge=0, description="Seed of everything that is random.")
    max_iter: int = Field(1000, ge=1, description="Most sweeps over the data.")
    tol: float = Field(
        1e-8, gt=0.0, lt=1.0, description="Relative tolerance on the rise of the bound to come."
    )
    partitions: int | None = Field(
        None,
        ge=1,
        description="Number of partitions; by default as many as rows_per_partition asks.",
    )
    rows_per_partition: int = Field(
        1000, ge=1, description="Rows (documents, locations, bags) in a partition."
    )
    checkpoint_every: int = Field(10, ge=1, description="Sweeps between two checkpoints.")


class ComputeSettings(BaseModel):
    """Where the heavy work is done: in process, on local workers or on a running cluster."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    workers: int | None = Field(
        None, ge=1, description="Local worker processes; empty: everything in one process."
    )
    scheduler: str | None = Field(
        None,
        description="Address of a running Dask scheduler, such as tcp://host:8786; instead of "
        "workers.",
    )
    memory_limit: str | None = Field(
        None,
        description="Memory of one local worker, such as 4 GiB; empty: its share of the machine.",
    )

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.workers is not None and self.scheduler is not None:
            raise ValueError("both workers and a scheduler; give one of them")
        if self.scheduler is not None and not _ADDRESS.fullmatch(self.scheduler):
            raise ValueError(
                f"the scheduler {self.scheduler!r}; write an address such as tcp://host:8786 or "
                "tls://host:8786"
            )
        return self


class KeywordSettings(RunSettings):
    """Keyword extraction from a few known keywords per document."""

    model: Literal["pooled", "full", "mean_field", "as_printed", "bss", "ss", "textrank"] = Field(
        "pooled",
        description="pooled: one regression over the corpus; full, mean_field, as_printed: VBSS "
        "per document; bss: BSS, by sampling; ss, textrank: scores without a posterior.",
    )
    inference: Literal["vi", "gibbs"] = Field(
        "vi",
        description="vi: variational Bayes; gibbs: sampling, for pooled (one partition), full and "
        "bss, slow but with diagnostics. bss is always sampled.",
    )
    chains: int = Field(4, ge=2, description="Chains of a sampler.")
    draws: int = Field(1000, ge=4, description="Draws of each chain that are kept.")
    warmup: int = Field(500, ge=0, description="First draws of each chain that are thrown away.")
    fdr: Probability = Field(
        0.1, description="Level of the Bayesian false discovery rate of the selected words."
    )
    fdr_scope: Literal["all", "new"] = Field(
        "all",
        description="What the false discovery rate is counted over: all selected words, where "
        "known keywords count as true (the papers' rule), or the new ones alone.",
    )
    keyword_rate: Probability | None = Field(
        None,
        description="Share of candidate words that are keywords; estimated from documents marked "
        "complete when it is not given.",
    )
    window: int = Field(
        2, ge=1, le=50, description="Largest distance, in words, that counts as co-occurrence."
    )
    damping: Probability = Field(0.85, description="Damping of TextRank and of the SS scores.")
    min_count: int | None = Field(
        None,
        ge=1,
        description="Least occurrences of a candidate in its document; by default 3 in documents "
        "of more than 1000 tokens and 1 in shorter ones.",
    )
    stem: Literal["auto", "none", "porter", "snowball"] = Field(
        "auto",
        description="How words are reduced to stems: auto is Porter's for English and the "
        "language's own elsewhere.",
    )
    language: str = Field(
        "english", description="Language of the stemmer and stop words (a Snowball name)."
    )
    stop_words: bool = Field(True, description="Whether stop words are left out.")
    tag: bool = Field(
        True, description="Whether English text is reduced to nouns, adjectives and verbs."
    )
    self_loops: bool = Field(True, description="Whether a word may co-occur with itself.")
    max_words: int = Field(
        2000, ge=10, description="Most candidate words of a document; the most frequent stay."
    )
    per_word: bool = Field(
        False,
        description="VBSS per document: a detection probability for each word, not one for all.",
    )
    tau: float = Field(
        0.1, gt=0.0, description="VBSS per document: 1/sigma^2 ~ Gamma(tau, rate tau)."
    )
    var_a: float = Field(10.0, gt=0.0, description="VBSS per document: prior variance of a.")
    var_b: float = Field(
        10.0,
        gt=0.0,
        description="VBSS per document: prior variance of the slope b; the text's 10 leaves it "
        "little room.",
    )
    document_precision: float | None = Field(
        None,
        gt=0.0,
        description="pooled: precision of an intercept of each document; by default there is none.",
    )

    @property
    def sampled(self) -> bool:
        """Whether the answer comes from a sampler."""
        return self.model == "bss" or self.inference == "gibbs"

    @model_validator(mode="after")
    def _known_sampler(self) -> Self:
        if self.inference == "gibbs" and self.model not in ("pooled", "full", "bss"):
            raise ValueError(
                "inference gibbs goes with model pooled, full or bss; "
                f"model {self.model} has no sampler"
            )
        return self


_BAG_FORMS = {
    "vmmic": ("collapsed", "mean_field", "as_printed", "gibbs"),
    "gp_probit": ("direct", "collapsed", "as_printed", "gibbs"),
    "gp_logistic": ("as_printed",),
}


class BagSettings(RunSettings):
    """Labels of bags and their primary instances."""

    tol: float = Field(
        1e-6,
        gt=0.0,
        lt=1.0,
        description="Relative tolerance on the rise of the bound to come (mean_field; the "
        "collapsed form stops when an epoch changes its objective by less than 0.1 nats).",
    )
    model: Literal["vmmic", "gp_probit", "gp_logistic"] = Field(
        "vmmic",
        description="vmmic: two probit regressions, primary instances and bags; gp_probit: a "
        "Gaussian process for each instance, a bag positive when one of its instances is; "
        "gp_logistic: its rival with a logistic link.",
    )
    inference: Literal["collapsed", "mean_field", "as_printed", "gibbs", "direct"] | None = Field(
        None,
        description="collapsed: all local variables integrated out; mean_field: coordinate "
        "ascent; as_printed: the paper's own updates; gibbs: draws from the posterior; direct: "
        "a search for the mode of the collapsed bound. By default collapsed for vmmic, direct "
        "for gp_probit, as_printed for gp_logistic.",
    )
    kernel: str = Field(
        "auto",
        description="gp_probit, gp_logistic: linear, rbf, exponential, matern32, matern52, or a "
        "sum such as linear+rbf; auto: linear for rows of length 1 (TF-IDF), else rbf.",
    )
    kernel_params: Literal["heuristic", "optimise"] = Field(
        "optimise",
        description="gp_probit with direct: whether length scale and amplitude are chosen from a "
        "grid by evidence; the other forms take the heuristic values.",
    )
    n_inducing: int | None = Field(
        None,
        ge=1,
        le=5000,
        description="gp_probit, gp_logistic: inducing points; by default 50.",
    )
    held_out: float = Field(
        0.0,
        ge=0.0,
        lt=1.0,
        description="Share of labelled bags whose label is kept from the fit, to test it.",
    )
    show_bags: tuple[str, ...] = Field(
        (), description="Bags that the report shows whatever their probability, such as [a, b]."
    )
    standardise: bool | None = Field(
        None,
        description="Whether features are brought to mean 0 and standard deviation 1; by default "
        "yes, except for the kernel of text (see kernel).",
    )
    precision: Literal["float64", "float32"] = Field(
        "float64", description="Type in which features are stored; sums are float64 always."
    )
    intercept_mean: float = Field(0.0, description="Prior mean of intercepts.")
    intercept_variance: float = Field(16.0, gt=0.0, description="Prior variance of intercepts.")
    slope_mean: float = Field(0.0, description="Prior mean of slopes.")
    slope_variance: float = Field(
        4.0, gt=0.0, description="Prior variance of slopes where it is not learned."
    )
    learn_slopes: bool = Field(
        True,
        description="collapsed: whether each block of slopes has a prior scale that is learned.",
    )
    slope_length: float = Field(
        8.0,
        gt=0.0,
        description="collapsed: squared length of a block of slopes that is expected beforehand.",
    )
    chains: int = Field(4, ge=2, description="gibbs: independent chains.")
    burn_in: int = Field(300, ge=0, description="gibbs: sweeps left out at first.")
    draws: int = Field(500, ge=10, description="gibbs: draws kept of each chain.")
    thin: int = Field(1, ge=1, description="gibbs: sweeps from one kept draw to the next.")

    @property
    def form(self) -> str:
        """The form of inference, the model's own where none is given."""
        return self.inference or _BAG_FORMS[self.model][0]

    @model_validator(mode="after")
    def _possible(self) -> BagSettings:
        known = _BAG_FORMS[self.model]
        if self.form not in known:
            raise ValueError(f"inference {' or '.join(known)} with model={self.model}")
        if self.model != "vmmic":
            KernelOptions(kernel=self.kernel)
        return self

    @model_validator(mode="after")
    def _enough_sweeps(self) -> BagSettings:
        if self.inference == "gibbs" and self.burn_in + self.draws * self.thin >= self.max_iter:
            raise ValueError(
                f"max_iter above burn_in + draws * thin = {self.burn_in + self.draws * self.thin}"
                f" with inference=gibbs, not {self.max_iter}"
            )
        return self


class FeatureSettings(RunSettings):
    """Latent binary features behind a table of categories (the Indian buffet process)."""

    max_iter: int = Field(2000, ge=1, description="Most sweeps over the data.")
    tol: float = Field(
        1e-7, gt=0.0, lt=1.0, description="Relative tolerance on the rise of the bound to come."
    )
    rows_per_partition: int = Field(5000, ge=1, description="Rows in a partition.")
    n_features: int = Field(
        12,
        ge=1,
        le=200,
        description="Most features; those that the data do not ask for stay empty.",
    )
    form: Literal["table", "nesarc_criteria", "nesarc_diagnoses"] = Field(
        "table",
        description="table: id and columns of categories; nesarc_criteria, nesarc_diagnoses: the "
        "public file of NESARC wave 1, read as 52 criteria or 20 diagnoses.",
    )
    inference: Literal["variational", "gibbs"] = Field(
        "variational",
        description="variational: features and their number, fast; gibbs: draws from the "
        "posterior, better at predicting missing cells.",
    )
    bound: Literal["polya_gamma", "text"] = Field(
        "polya_gamma",
        description="polya_gamma: closed form, from several annealed starts; text: the bound of "
        "Ruiz et al. first, then Polya-Gamma from its features (variational).",
    )
    gauge: Literal["pinned", "free"] = Field(
        "pinned",
        description="text: whether each column's most frequent category is held at 0, or all "
        "categories are free as in the text.",
    )
    alpha: float = Field(
        1.0, gt=0.0, description="Concentration of the Indian buffet process (start, if learned)."
    )
    sigma2: float = Field(
        1.0, gt=0.0, description="Prior variance sigma_B^2 of a category's weight (start, if "
        "learned); a binary column's log-odds have twice that.",
    )  # fmt: skip
    learn: bool = Field(True, description="Whether alpha and sigma2 are learned.")
    anneal: int = Field(
        60, ge=0, le=1000, description="Sweeps of the annealed start (variational)."
    )
    starts: int = Field(
        2, ge=1, le=20, description="Starts side by side; the best bound goes on (polya_gamma)."
    )
    chains: int = Field(3, ge=1, le=20, description="Chains (gibbs).")
    warmup: int = Field(200, ge=0, description="Draws of each chain that are thrown away (gibbs).")
    draws: int = Field(200, ge=4, description="Draws of each chain that are averaged (gibbs).")
    flip_above: Probability = Field(
        0.8, description="Features that more than this share of the rows have are reported as "
        "their complements.",
    )  # fmt: skip
    least_rows: int | None = Field(
        None, ge=0, description="Features that fewer rows have are not reported; by default a "
        "thousandth of the rows, and 5 at least.",
    )  # fmt: skip
    max_levels: int = Field(
        100, ge=2, le=10_000, description="Most categories of a column that are accepted."
    )
    missing: tuple[str, ...] = Field(
        (), description="Texts that stand for a missing cell, besides null."
    )
    group: bool = Field(True, description="Whether equal rows share one local step (variational).")

    @model_validator(mode="after")
    def _enough_sweeps(self) -> FeatureSettings:
        if self.inference == "gibbs" and self.max_iter < self.warmup + self.draws:
            raise ValueError(f"max_iter of at least warmup + draws = {self.warmup + self.draws}")
        return self


def compute_settings(
    workers: int | None, scheduler: str | None, memory_limit: str | None = None
) -> ComputeSettings:
    """Make compute settings from options.

    Raises
    ------
    InputError
        If they do not go together.
    """
    try:
        return ComputeSettings(workers=workers, scheduler=scheduler, memory_limit=memory_limit)
    except ValidationError as error:
        faults = [_fault(ComputeSettings, problem) for problem in error.errors()]
        raise InputError(faults) from error


class VariantSettings(RunSettings):
    """Variants of a case against a control, from reads or from base counts."""

    tol: float = Field(
        1e-6, gt=0.0, lt=1.0, description="Relative tolerance on the rise of the objective to come."
    )
    case: str = Field("case", min_length=1, description="Name of the sample that is tested.")
    control: str | None = Field(
        "control",
        description="Name of the sample it is compared with; empty: the germline test of the "
        "case alone.",
    )
    fasta: str | None = Field(None, description="Reference FASTA; needed for BAM and CRAM.")
    bed: str | None = Field(None, description="BED file of the intervals to look at.")
    region: str | None = Field(None, description="One region, such as 17:7572000-7591000.")
    chr_names: Literal["exact", "map"] = Field(
        "exact", description="map: take contig 'chr1' for '1' and the other way round."
    )
    min_base_quality: int = Field(20, ge=0, le=93, description="Least quality of a base.")
    min_mapping_quality: int = Field(20, ge=0, le=255, description="Least mapping quality.")
    overlaps: Literal["once", "both"] = Field(
        "once", description="Whether overlapping mates count once or twice."
    )
    orphans: bool = Field(False, description="Whether paired reads without their mate count.")
    max_depth: int = Field(0, ge=0, description="Most reads at a position; 0: no cap.")
    strand: Literal["both", "forward", "reverse"] = Field(
        "both", description="Reads of which strand are counted; both are summed."
    )
    test: Literal["two_groups", "posterior_difference"] = Field(
        "two_groups",
        description="two_groups: empirical Bayes with a point null per allele; "
        "posterior_difference: the papers' RVD2, per location.",
    )
    fdr: Probability = Field(0.05, description="Level of the false discovery rate of the calls.")
    strict: bool = Field(
        False, description="two_groups: call by e-BH, valid under any dependence of the units."
    )
    two_sided: bool = Field(
        False, description="Whether an allele that is rarer in the case counts too."
    )
    alternative: Literal["broad", "mixture"] = Field(
        "broad",
        description="two_groups: rates of variants are Beta(.1, .1), or a mixture over the "
        "allele's share that is fitted too: more power, somewhat more other calls.",
    )
    tau: float = Field(
        0.0,
        ge=0.0,
        lt=1.0,
        description="posterior_difference: least difference of the rates. At 0 the rule has no "
        "point null and about half its calls are false with 14 variants in 400 locations; "
        "5e-4 controls that. Without a control: least rate (the papers take 0.05).",
    )
    alpha: Probability = Field(
        0.05, description="posterior_difference: a call needs P(difference > tau) > 1 - alpha."
    )
    inference: Literal["collapsed", "mean_field"] = Field(
        "collapsed",
        description="posterior_difference: collapsed integrates theta out; mean_field is the "
        "text's, whose sd is too small by about sqrt(1 + M/n).",
    )
    dispersion: Literal["shared", "per_location"] = Field(
        "shared",
        description="posterior_difference: one M for all locations, or log M_j with a normal "
        "prior, which strong variants can drive into a useless optimum.",
    )
    fit_units: int = Field(
        6000,
        ge=300,
        description="two_groups: most units (three a location) that the hyperparameters are "
        "fitted on; more locations than that are sampled at random.",
    )
    strand_bias: Probability = Field(
        1e-3,
        description="Level of the strand-bias filter: Fisher's test over all calls (Bonferroni), "
        "together with an odds ratio beyond 3.",
    )


class ExpertSettings(RunSettings):
    """A mixture of logistic experts that predicts a label 0/1 from numeric columns."""

    max_iter: int = Field(5000, ge=1, description="Most evaluations of all rows.")
    tol: float = Field(
        3e-6,
        gt=0.0,
        lt=1.0,
        description="marginal: rise of the objective, in nats a row, that ends a search; cavi: "
        "relative tolerance on the rise of the bound to come.",
    )
    rows_per_partition: int = Field(5000, ge=1, description="Rows in a partition.")
    n_experts: int = Field(
        5, ge=1, le=100, description="Number of experts; 1 is Bayesian logistic regression."
    )
    select: Literal["fixed", "cv"] = Field(
        "fixed",
        description="cv: the number of experts is chosen among 1, 2, 5, 10, ... up to n_experts "
        "by the log-likelihood of held-out rows (marginal).",
    )
    inference: Literal["marginal", "cavi"] = Field(
        "marginal",
        description="marginal: the responsible expert summed out, several starts averaged; cavi: "
        "coordinate ascent on bounds of sigmoid and softmax.",
    )
    prior: Literal["gaussian", "mabn2"] = Field(
        "gaussian",
        description="mabn2: the mutual angular prior that keeps experts apart (marginal tries it "
        "against none by held-out rows).",
    )
    gate_bound: Literal["bohning", "bouchard"] = Field(
        "bohning", description="Bound on the gates' softmax (cavi)."
    )
    tau: float | None = Field(
        None,
        gt=0.0,
        description="Precision of the prior of weights; by default chosen by held-out rows "
        "(marginal) or 1 (cavi).",
    )
    shared: bool | None = Field(
        None,
        description="Whether the experts' prior has a common mean; by default chosen by held-out "
        "rows (marginal).",
    )
    kappa: float = Field(10.0, ge=0.0, description="Concentration of the prior mabn2.")
    omega: float = Field(
        0.0,
        ge=0.0,
        description="Weight of the angular regulariser Omega, tried against none by held-out rows "
        "(marginal).",
    )
    restarts: int = Field(5, ge=1, le=100, description="Starts that are averaged (marginal).")
    predict: Literal["plug_in", "mackay", "monte_carlo"] = Field(
        "plug_in",
        description="How each start's posterior enters predictions: at its means, by MacKay's "
        "correction, or by draws. The means had the best log-loss on the real data tried.",
    )
    class_weight: Literal["none", "balanced"] = Field(
        "none", description="balanced: both labels weigh the same in the fit."
    )
    standardise: bool = Field(
        True,
        description="Whether columns are brought to mean 0 and standard deviation 1; columns of "
        "0 and 1 stay as they are.",
    )
    test_share: float = Field(
        0.1,
        ge=0.0,
        lt=0.9,
        description="Share of the labelled rows that is left out of the fit to judge it.",
    )

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if self.inference == "cavi" and (self.select == "cv" or self.omega > 0.0):
            raise ValueError("select cv and omega go with inference marginal")
        return self


def load(
    settings: type[RunSettings], config: str | None, assignments: list[str], **given: Any
) -> RunSettings:
    """Make settings from a config file, ``key=value`` assignments and options, last one wins.

    Raises
    ------
    InputError
        With one fault for each unknown name, wrong type or value out of range.
    """
    values: dict[str, Any] = {}
    if config is not None:
        values.update(_read_config(config))
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise InputError(
                [
                    Fault(
                        file="--set",
                        expected="key=value",
                        found=repr(assignment),
                        remedy="write --set fdr=0.1",
                    )
                ]
            )
        values[key.strip()] = yaml.safe_load(text) if text.strip() else ""
    values.update({key: value for key, value in given.items() if value is not None})
    try:
        return settings(**values)
    except ValidationError as error:
        raise InputError([_fault(settings, problem) for problem in error.errors()]) from error


def _read_config(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            values = yaml.safe_load(file) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            [Fault(file=path, expected="a YAML or JSON file of settings", found=reason)]
        ) from error
    if not isinstance(values, dict):
        raise InputError(
            [Fault(file=path, expected="names with values", found=type(values).__name__)]
        )
    return values


def _fault(settings: type[BaseModel], problem: Any) -> Fault:
    name = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        known = ", ".join(sorted(settings.model_fields))
        return Fault(
            file="settings",
            column=name,
            expected="a known setting",
            found=name,
            remedy=f"known are: {known}",
        )
    if problem["type"] == "value_error":
        return Fault(
            file="settings",
            expected="settings that go together",
            found=problem["msg"].removeprefix("Value error, "),
        )
    return Fault(
        file="settings",
        column=name,
        expected=problem["msg"][:1].lower() + problem["msg"][1:],
        found=repr(problem["input"]),
    )


def describe(settings: type[RunSettings]) -> list[tuple[str, str, str, str]]:
    """Return (name, type and range, default, meaning) of every setting, for help and docs."""
    schema = settings.model_json_schema()["properties"]
    return [
        (name, _range(schema[name]), repr(field.default), field.description or "")
        for name, field in settings.model_fields.items()
    ]


def _range(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_range(option) for option in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(str(value) for value in schema["enum"])
    bounds = [
        f"{sign} {schema[key]:g}"
        for key, sign in (
            ("exclusiveMinimum", ">"),
            ("minimum", ">="),
            ("exclusiveMaximum", "<"),
            ("maximum", "<="),
        )
        if key in schema
    ]
    kind = {"null": "empty"}.get(schema.get("type", ""), schema.get("type", "any"))
    return " ".join([kind, ", ".join(bounds)]).strip()
