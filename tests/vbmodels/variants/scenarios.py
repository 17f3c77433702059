"""Counts in which case and control differ as real libraries do, with the truth."""

from dataclasses import dataclass, replace

import numpy as np

from tests.vbmodels.variants.contexts_along import along
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.variants.counts import BASES, Counts
from vbmodels.variants.simulate import Truth
from vbmodels.variants.two_groups.contexts import N_CONTEXTS, names_of_contexts

OXIDATION = ("G>T", "C>A")
DEAMINATED = (*(f"{base}[C>T]G" for base in BASES), *(f"C[G>A]{base}" for base in BASES))
NOISE = 0.4  # coefficient of variation of an allele's errors between replicates
VARIANT_M = 5000.0


@dataclass(frozen=True)
class Scenario:
    """Factors of the errors of the case, shares of alleles, and sds of logarithms."""

    meaning: str
    share: float = 0.01
    n_variants: int = 0
    depth: int = 4000
    replicates: int = 3
    oxidation: float = 1.0  # of G>T and C>A
    deamination: float = 1.0  # of C>T before a G, and G>A behind a C
    errors: float = 1.0
    hot: float = 0.0
    hot_factor: float = 5.0  # in both samples
    case_noise: float = NOISE  # between the case's replicates
    jackpot: float = 0.0  # gain .2 to 2 % of the reads of the case's first library
    members: int = 1  # of the control, or of a panel
    site_sd: float = 0.0  # of each sample at every site
    type_sd: float = 0.0  # and by type
    carriers: float = 0.0  # that a member carries; so does the case every other, by chance
    member_replicates: int = 0  # 0: as many as of the case


NULLS = {
    "null": Scenario("case and control differ at random"),
    "null400": Scenario("the same at 400 reads", depth=400),
    "null_oxo5": Scenario("oxidation in the case: G>T and C>A five times", oxidation=5.0),
    "null_oxo3": Scenario("the same three times", oxidation=3.0),
    "null_cpg8": Scenario("deamination in the case: C>T in CpG eight times", deamination=8.0),
    "null_caseerr1.5": Scenario("all errors of the case 1.5 times", errors=1.5),
    "null_caseerr2": Scenario("all errors of the case twice", errors=2.0),
    "null_hot3%x5": Scenario("3 % of alleles five times in both samples", hot=0.03),
    "null_cvcase1.2": Scenario("noisier replicates of the case", case_noise=1.2),
    "null_oxo8_N1": Scenario(
        "oxidation eight times, one replicate each", replicates=1, oxidation=8.0
    ),
    "null_jackpot2%": Scenario("PCR jackpots in one library of the case", jackpot=0.02),
}
FINDS = {
    "af.001_30000": Scenario("24 variants of .1 % at 30,000 reads", 0.001, 24, 30_000),
    "af.002_4000": Scenario("24 variants of .2 %", 0.002, 24),
    "af.003_4000": Scenario("24 variants of .3 %", 0.003, 24),
    "af.005_400": Scenario("24 variants of .5 % at 400 reads", 0.005, 24, 400),
    "af.01_4000": Scenario("12 variants of 1 %", 0.01, 12),
    "af.01_oxo5": Scenario("the same with oxidation in the case", 0.01, 12, oxidation=5.0),
    "af.003_oxo5": Scenario(".3 % with oxidation in the case", 0.003, 24, oxidation=5.0),
    "af.01_oxo8_N1": Scenario(
        "1 % with oxidation eight times, one replicate each", 0.01, 12, 4000, 1, oxidation=8.0
    ),
    "af.01_cpg8": Scenario("1 % with deamination in the case", 0.01, 12, deamination=8.0),
    "af.01_caseerr2": Scenario("1 %, all errors of the case twice", 0.01, 12, errors=2.0),
    "af.003_4000_N1": Scenario(".3 %, one replicate each", 0.003, 24, replicates=1),
    "af.01_400_N1": Scenario("1 % at 400 reads, one replicate each", 0.01, 24, 400, 1),
}
PANEL = Scenario(
    "a panel of 6 other people's samples, each sample with its own errors by site and substitution",
    0.003, 12, members=6, site_sd=0.6, type_sd=0.5,
)  # fmt: skip
PANELS = {
    "null_simpanel": replace(PANEL, meaning=f"{PANEL.meaning}; no variants", n_variants=0),
    "simpanel": replace(PANEL, meaning=f"{PANEL.meaning}; 12 variants of .3 %"),
    "simpanel_N1": replace(
        PANEL, meaning="the same, one replicate of each of the panel", member_replicates=1
    ),
    "simpanel_carriers": replace(
        PANEL,
        carriers=0.02,
        meaning="the same; 2 % of alleles and half of the variants are carried by one of the panel",
    ),
}
SCENARIOS = NULLS | FINDS | PANELS


def simulate_scenario(
    rng: np.random.Generator, scenario: Scenario, n_locations: int = 300
) -> tuple[Counts, Truth]:
    """Draw the counts of a scenario and its truth.

    Substitution type t has rate 2e-4 times a log-normal of sd .7, an allele that times
    Gamma(2)/2; each library multiplies it by Gamma noise of mean 1, as amplification does, and
    the reads are multinomial. Variants have Beta noise of M = 5000. Locations follow one another.
    """
    ref = rng.integers(0, 4, n_locations).astype(np.int8)
    rank = np.arange(3)
    alts = rank + (rank >= ref[:, None])
    kind = 3 * ref[:, None].astype(int) + rank
    of_type = 2e-4 * np.exp(0.7 * rng.standard_normal(12) - 0.245)
    errors = of_type[kind] * rng.gamma(2.0, 0.5, kind.shape)
    errors = np.where(rng.random(kind.shape) < scenario.hot, scenario.hot_factor * errors, errors)
    context = along(ref.astype(np.int64))
    factor = scenario.errors * np.where(np.isin(kind, _places(OXIDATION)), scenario.oxidation, 1.0)
    deaminated = np.isin(N_CONTEXTS * kind + context[:, None], _contexts(DEAMINATED))
    factor = factor * np.where(deaminated, scenario.deamination, 1.0)
    location = np.sort(rng.choice(n_locations, scenario.n_variants, replace=False))
    which = rng.integers(0, 3, scenario.n_variants)
    share = np.zeros(kind.shape)
    share[location, which] = scenario.share
    hit = rng.random(kind.shape) < scenario.jackpot
    jackpot = np.where(hit, np.exp(rng.uniform(np.log(0.002), np.log(0.02), kind.shape)), 0.0)
    of_sample = _samples(scenario)
    own = errors * _own_factors(rng, scenario, kind)
    carried = np.zeros(own.shape)
    if scenario.carriers > 0.0:
        chance = np.where(share > 0.0, 0.5, scenario.carriers)
        alleles = np.argwhere(rng.random(kind.shape) < chance)
        who = rng.integers(1, scenario.members + 1, len(alleles))
        carried[who, alleles[:, 0], alleles[:, 1]] = 0.5
    counts = np.zeros((n_locations, len(of_sample), 4), np.int32)
    for i, sample in enumerate(of_sample):
        noise = 1.0 / (NOISE if sample else scenario.case_noise) ** 2
        theta = own[sample] * rng.gamma(noise, 1.0 / noise, kind.shape)
        if not sample:
            theta = theta * factor + _variants(rng, share)
        if i == 0:
            theta = theta + jackpot
        theta = np.where(carried[sample] > 0.0, carried[sample], theta)
        counts[:, i] = _reads(rng, theta, ref, alts, scenario.depth)
    mu_control, mu_case = np.zeros((n_locations, 4)), np.zeros((n_locations, 4))
    rows = np.arange(n_locations)[:, None]
    mu_control[rows, alts], mu_case[rows, alts] = errors, own[0] * factor + share
    truth = Truth(location.astype(np.int64), alts[location, which].astype(np.int64), mu_case,
                  mu_control)  # fmt: skip
    member = of_sample - 1 if scenario.members > 1 else None
    return Counts(counts, ref, of_sample == 0, member=member, context=context), truth


def _samples(scenario: Scenario) -> IntArray:
    """Return the sample of each replicate, 0 the case's."""
    of_member = scenario.member_replicates or scenario.replicates
    sizes = [scenario.replicates, *[of_member] * scenario.members]
    return np.repeat(np.arange(scenario.members + 1), sizes)


def _own_factors(rng: np.random.Generator, scenario: Scenario, kind: IntArray) -> FloatArray:
    """Return each sample's own factor of its errors, [S, J, 3]."""
    size = scenario.members + 1
    if scenario.site_sd == 0.0 and scenario.type_sd == 0.0:
        return np.ones((size, *kind.shape))
    by_type = scenario.type_sd * rng.standard_normal((size, 12))
    by_site = scenario.site_sd * rng.standard_normal((size, *kind.shape))
    return np.asarray(np.exp(by_type[:, kind] + by_site))


def exchangeable(scenario: Scenario) -> Scenario:
    """Return a scenario without what makes its samples differ."""
    return replace(
        scenario, oxidation=1.0, deamination=1.0, errors=1.0, case_noise=NOISE, jackpot=0.0
    )


def _places(names: tuple[str, ...]) -> list[int]:
    kinds = [f"{r}>{a}" for r in BASES for a in BASES if a != r]
    return [kinds.index(name) for name in names]


def _contexts(names: tuple[str, ...]) -> list[int]:
    every = names_of_contexts()
    return [every.index(name) for name in names]


def _variants(rng: np.random.Generator, share: FloatArray) -> FloatArray:
    drawn = rng.beta(np.maximum(VARIANT_M * share, 1e-9), VARIANT_M * (1.0 - share))
    return np.where(share > 0.0, drawn, 0.0)


def _reads(
    rng: np.random.Generator, theta: FloatArray, ref: np.ndarray, alts: IntArray, depth: int
) -> IntArray:
    size = len(ref)
    total = np.maximum(np.rint(rng.normal(depth, 0.1 * depth, size)), 1).astype(int)
    others = np.minimum(theta, 0.3)
    shares = np.concatenate([others, 1.0 - others.sum(axis=1, keepdims=True)], axis=1)
    drawn = rng.multinomial(total, shares)
    found = np.zeros((size, 4), np.int64)
    found[np.arange(size)[:, None], alts] = drawn[:, :3]
    found[np.arange(size), ref] = drawn[:, 3]
    return found
