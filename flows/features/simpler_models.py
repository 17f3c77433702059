"""The features against simpler models of the same rows: shares, latent classes, and one scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from flows.features.description import chance_in_words, percent
from flows.features.settings import FeatureSettings
from flows.report.page import Grid, Section
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.features.draw_kernels import draw_uniform, row_keys
from vbmodels.features.forms import searched
from vbmodels.features.imputation.latent import one_hot
from vbmodels.features.latent_class_analysis import FEW, few_classes
from vbmodels.features.latent_scale import latent_scale
from vbmodels.features.search.states import SearchGlobal
from vbmodels.features.table import FeatureBatch

MOST_ROWS = 5000
"""Rows that simpler models are fitted to, about."""
MOST_CELLS = 2_000_000
"""Rows times categories that these models are fitted to; of wider tables fewer rows."""
LOOSE, CLOSE = 15.0, 3.0
"""Nats a feature by which the bound may be below the log probability; nats between two BICs."""
SURE = 0.95
"""Probability of a number of classes, or of a scale, from which on it is said to be best."""
_STREAM = 11
_CLASSES = ("no feature (1 group)", "1 feature (2 groups)", "3 groups", "4 groups")
_EITHER = "Describe the answers by either, and say that the data do not decide between them."
SCALE = "one sliding scale"


@dataclass(frozen=True)
class RowSample:
    """Rows of a partition: codes [U, D], and how often each counts [U]."""

    codes: NDArray[np.int16]
    count: FloatArray


def sample_rows(batch: FeatureBatch, n_rows: float) -> RowSample:
    """Return a partition's part of about `MOST_ROWS` of ``n_rows`` rows; of fewer, all."""
    most = min(MOST_ROWS, MOST_CELLS / float(batch.levels.sum()))
    lots: FloatArray = draw_uniform(row_keys(batch.row_id, _STREAM), 1)[:, 0]
    taken = np.flatnonzero(lots * n_rows < most)
    count = np.bincount(batch.row_of[taken], batch.row_count[taken], len(batch.count))
    there = np.flatnonzero(count)
    return RowSample(batch.codes[there], count[there].astype(np.float64))


@dataclass(frozen=True)
class SimplerModels:
    """How well simpler models describe the rows.

    Attributes
    ----------
    rows
        Rows that they were fitted to, as often as each counts.
    each
        log p(rows), approximately, by 1, 2 and so on latent classes, of which one is the columns'
        shares: -BIC / 2.
    features
        The bound on log p(rows) of the features, for as many rows; of one feature, which is the
        same model as two classes, theirs. None where it is not known.
    scale
        As ``each``, by one latent scale; None where fewer different rows can be than that has
        parameters.
    two_features
        About the most that ``each`` could be by two features: these make four classes, of which
        they have the log-likelihood at most, as far as EM found it. None where it is not known.
    """

    rows: float
    each: tuple[float, ...]
    features: float | None = None
    scale: float | None = None
    two_features: float | None = None

    def chances(self) -> tuple[list[tuple[str, float]], FloatArray]:
        """Return the simpler models with their -BIC / 2, and the probability of each."""
        models = [*zip(_CLASSES, self.each, strict=False)]
        models += [] if self.scale is None else [(SCALE, self.scale)]
        return models, softmax([value for _, value in models])

    @property
    def shares(self) -> float:
        """-BIC / 2 of the columns' shares."""
        return self.each[0]

    def rival(self, features: int) -> tuple[str, float]:
        """Return the best of the models that are not the features' own, and its -BIC / 2."""
        found = [] if self.scale is None else [(SCALE, self.scale)]
        for number, value in enumerate(self.each[1:], 2):
            if not (number == 2 and features == 1):  # the same model
                most = ", the most that were tried" * (number == FEW[-1])
                found.append((f"{number} latent classes{most}", value))
        return max(found, key=lambda one: one[1], default=("each column's shares", self.shares))

    @property
    def gain(self) -> float:
        """By how much the BIC of the best of them is lower than that of the shares."""
        return 2.0 * (self.rival(0)[1] - self.shares)


def compare_models(
    samples: Sequence[RowSample], levels: IntArray, q: Any, n_rows: float, features: int = 0
) -> SimplerModels | None:
    """Fit simpler models to the sampled rows; None where there is no row or no two classes."""
    codes = np.concatenate([one.codes for one in samples])
    count = np.concatenate([one.count for one in samples])
    cells_of = one_hot(codes, levels)
    fits = few_classes(cells_of, levels, count)
    if len(fits) < 2:
        return None
    # More parameters than different rows can have: such a model is not determined.
    free, cells = int(np.sum(levels - 1)), np.prod(levels.astype(float)) - 1.0
    scale = None
    if 2 * free <= cells:
        scale = -0.5 * latent_scale(cells_of, levels, count, fits[1]).bic
    rows, two = float(count.sum()), None
    if len(fits) > 3 and 3 * free + 2 <= cells:
        two = fits[3].log_likelihood - 0.5 * (3 * free + 2) * float(np.log(rows))
    fits = [fit for k, fit in enumerate(fits, 1) if k < 3 or k * free + k - 1 <= cells]
    at, bound = searched(q), None
    if isinstance(at, SearchGlobal) and at.fit is not None:
        bound = max(at.fit.bound, at.fit.value) * rows / n_rows
        bound = bound if np.isfinite(bound) else None  # max_iter came before it was measured
    each = tuple(-0.5 * fit.bic for fit in fits)
    if features == 1:
        bound = each[1]
    return SimplerModels(rows, each, bound, scale, two)


def model_results(found: SimplerModels, features: int) -> dict[str, Any]:
    """Return the comparison, for run.json."""
    name, value = found.rival(features)
    return asdict(found) | {"best": name, "best_log_probability": value, "bic_gain": found.gain}


def model_section(found: SimplerModels, features: int) -> Section:
    """Compare the features with latent classes and a scale, and those with one another."""
    models, chance = found.chances()
    most = max(value for _, value in models)
    rows = [
        (name, _against(value - most), chance_in_words(p))
        for (name, value), p in zip(models, chance.tolist(), strict=True)
    ]
    text, undecided = _verdict(found, features)
    if features < 2:  # of more it is about simpler models alone
        best = models[int(chance.argmax())][0]
        if chance.max() >= SURE:
            text += f" Of these models {best} describes the answers best: by the BIC its "
            text += f"probability is {chance_in_words(chance.max())}"
        else:
            sure = [(p, name) for (name, _), p in zip(models, chance, strict=True) if p >= 0.05]
            listed = ", ".join(
                f"{name} {chance_in_words(p)}" for p, name in sorted(sure, reverse=True)
            )
            text += f" No model reaches {percent(SURE)}: by the BIC the probabilities are {listed}"
        text += ", if all are equally probable beforehand."
    text += f" {_EITHER}" * undecided
    note = "One feature makes two groups: rows with it and rows without (latent classes)."
    if features == 1 and found.two_features is not None and found.two_features < most - CLOSE:
        behind = found.two_features - most
        rows.insert(
            2, ("2 features", f"about {_against(behind)}, at best", chance_in_words(np.exp(behind)))
        )
        note += " Two features make four groups, so they fit at most as well as the best four."
    if found.scale is not None:
        note += " On a sliding scale every row has a place, and answers change with it gradually "
        note += "(item response theory)."
    heads = ("model", "probability of the answers", "probability of the model")
    if found.features is not None and features > 1:
        rows.append((f"{features} features", _against(found.features - most), ""))
    title = "How many features or groups, or a scale"
    return Section(title, text.strip(), (), (Grid(heads, rows, note),))


def _against(nats: float) -> str:
    """Return how many times less, or more, probable answers are than by the best model.

    >>> _against(0.0), _against(-0.2), _against(-25.3), _against(8.0)
    ('highest', '1.2 times less', '100 billion times less', '3,000 times more')
    """
    if abs(nats) < 0.05:
        return "highest"
    return f"{times_in_words(abs(nats))} times {'less' if nats < 0.0 else 'more'}"


_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def times_in_words(nats: float) -> str:
    """Return a ratio of probabilities in words or as a power of ten.

    >>> times_in_words(19.0), times_in_words(200.0), times_in_words(3.0)
    ('200 million', '10⁸⁷', '20')
    """
    power = nats / np.log(10.0)
    if power >= 11.5:
        return "10" + f"{round(power)}".translate(_RAISED)
    value = float(f"{np.exp(nats):.1g}")
    for size, name in ((1e9, " billion"), (1e6, " million")):
        if value >= size:
            return f"{value / size:,.0f}{name}"
    return f"{value:,.0f}" if value >= 10.0 else f"{np.exp(nats):.2g}"


def odds_in_words(nats: float, other: str = "") -> str:
    """Return how many times as probable, or less probable, something is, or is by another model.

    >>> odds_in_words(0.2), odds_in_words(-9.0, "a scale")
    ('1.2 times as probable', '8,000 times less probable than a scale')
    """
    how, word = ("as", "as") if nats >= 0.0 else ("less", "than")
    return f"{times_in_words(abs(nats))} times {how} probable" + f" {word} {other}" * bool(other)


def _verdict(found: SimplerModels, features: int) -> tuple[str, bool]:
    """Say which model is better, and whether none is."""
    if not features:
        name, _ = found.rival(0)
        said = (
            f"Although no feature was found, {describes(name)} the rows better than each column's "
            f"shares (BIC lower by {found.gain:,.0f})."
            if found.gain > 0.0
            else "Simpler models agree: no grouping of the rows"
            f"{' and no scale' * (found.scale is not None)} describes them better than each "
            f"column's shares (BIC higher by {-found.gain:,.0f})."
        )
        return said, False
    if found.features is None:
        return "", False
    ahead = found.features - found.rival(features)[1]
    said, slack = difference_in_words(found, features), slack_of(features)
    text = f"{said[0].upper()}{said[1:]}: with the feature{'s' * (features > 1)} the answers are "
    text += f"{odds_in_words(ahead)}."
    if abs(ahead) < slack:
        text += " The probabilities by both models are approximate: below about "
        text += f"{times_in_words(slack)} times no "
        return f"{text}difference is clear.", True
    if ahead < 0.0:
        text += (
            " The rows may differ by degree rather than by yes-or-no properties: an item response "
            "model, or factor analysis, gives each its place."
            if found.rival(features)[0] == SCALE
            else " The rows may be a few kinds rather than combinations of properties."
        )
    return text, False


def slack_of(features: int) -> float:
    """Return the nats between features and another model below which no difference is clear."""
    return LOOSE * features if features > 1 else CLOSE


def describes(name: str) -> str:
    """Return a model with its verb.

    >>> describes("one sliding scale"), describes("4 latent classes, the most that were tried")
    ('one sliding scale describes', '4 latent classes, the most that were tried, describe')
    """
    return f"{name}{',' * (',' in name)} describe{'s' * (name == SCALE)}"


def difference_in_words(found: SimplerModels | None, features: int) -> str:
    """Say how the features compare with the best simpler model; nothing where it is not known."""
    if found is None or found.features is None or not features:
        return ""
    name, value = found.rival(features)
    ahead = found.features - value
    if abs(ahead) < slack_of(features):
        return f"{describes(name)} the answers about as well"
    return f"{describes(name)} the answers {'worse' if ahead > 0.0 else 'better'}"


def undecided_in_words(found: SimplerModels | None, rows: int) -> str:
    """Say that answers are related, but not how; empty where that is clear or not known."""
    if found is None or softmax(np.array(found.each))[0] >= 0.01:
        return ""
    name, value = found.rival(1)
    if abs(found.each[1] - value) >= CLOSE:
        return ""
    total = logsumexp([one for _, one in found.chances()[0]])
    two, other = (percent(float(np.exp(one - total))) for one in (found.each[1], value))
    times = times_in_words(found.each[1] - found.each[0])
    said = (
        f"The answers of {rows:,} rows are related: two groups are {times} times as probable as no "
    )
    said += f"relation. The data do not decide between two groups (probability {two}) and {name} "
    return f"{said}({other})"


def _related_in_words(found: SimplerModels, rows: int) -> str:
    """Say that answers are related, and how much more probable two groups make them than one."""
    times = times_in_words(found.each[1] - found.each[0])
    return f"The answers of {rows:,} rows are related ({times} times as probable as unrelated)"


def groups_in_words(found: SimplerModels | None, rows: int) -> str:
    """Say that one feature makes two groups, and whether that is better than none and than more."""
    if found is None:
        return f"The model describes the answers of {rows:,} rows by two groups"
    if softmax(np.array(found.each))[0] >= 0.01:
        said = f"That the answers of {rows:,} rows are related is not sure"
        return f"{said}; the model describes them by two groups"
    sure = found.each[1] - found.rival(1)[1] >= CLOSE
    best = "best described (of the models tried)" if sure else "here described"
    return f"{_related_in_words(found, rows)}, {best} by two groups"


def no_feature_in_words(found: SimplerModels | None, settings: FeatureSettings) -> tuple[str, str]:
    """Return what a fit without features says in the headline, and what to do as a warning."""
    if found is not None and found.gain > 0.0:
        name, _ = found.rival(0)
        said = (
            f"but {describes(name)} the rows better than each column's shares (BIC lower by "
            f"{found.gain:,.0f}): answers do go together"
        )
        model = "an item response model" if name == SCALE else f"a latent class model ({name})"
        return said, (
            f"No feature was found, {said}. Fit {model}, or search again: "
            f"--set starts={max(6, 2 * settings.starts)}, or another --seed."
        )
    agree = (
        "" if found is None else f", and simpler models agree (BIC higher by {-found.gain:,.0f})"
    )
    said = f"the rows do not say more than each column's shares{agree}"
    return said, (
        f"No feature was found: {said}. More rows, or more columns on the same subject, may show "
        "features that these do not."
    )
