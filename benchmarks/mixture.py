"""A Gaussian mixture beside scikit-learn and Spark: CPU and time to the same held-out log density.

    python -m benchmarks.mixture [--rows 100000] [--columns 8] [--components 10] [--seeds 3]

The example package `vbflows_mixture` and `BayesianGaussianMixture` with full covariances and the
same priors, and Spark MLlib's by maximum likelihood, on simulated rows with mean 0 and sd 1; a
tenth is held out. Values are log densities a held-out row, by the posterior predictive density of
ours and by the mean parameters of theirs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples" / "vbflows_mixture"))

from vbflows_mixture.model import Mixture, Rows  # noqa: E402
from vbflows_mixture.predict import told  # noqa: E402
from vbflows_mixture.simulate import simulate  # noqa: E402

from benchmarks import beside, spark  # noqa: E402
from vbmodels.core.cavi import cavi  # noqa: E402
from vbmodels.core.state import FloatArray  # noqa: E402

ROUNDS = (2, 5, 10, 20, 40, 80)


def rival(x: FloatArray, model: Mixture, seed: int) -> Callable:
    """Return what fits scikit-learn's model for at most some iterations."""
    size = x.shape[1]

    def fits(iterations: int) -> BayesianGaussianMixture:
        other = BayesianGaussianMixture(
            n_components=model.components,
            covariance_type="full",
            weight_concentration_prior_type="dirichlet_distribution",
            weight_concentration_prior=model.alpha,
            mean_precision_prior=model.weight0,
            mean_prior=np.zeros(size),
            degrees_of_freedom_prior=size + model.freedom,
            covariance_prior=model.spread * (size + model.freedom) * np.eye(size),
            max_iter=iterations,
            tol=1e-10,
            random_state=seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return other.fit(x)

    return fits


def spark_rival(session: Any, folder: str, x: FloatArray, components: int) -> Callable:
    """Return what fits Spark's maximum likelihood for at most some iterations."""
    from pyspark.ml.clustering import GaussianMixture

    rows = spark.cached(session, folder, "rows", x)

    def fits(seed: int, iterations: int) -> Callable[[FloatArray], float]:
        model = GaussianMixture(k=components, maxIter=iterations, tol=1e-10, seed=seed).fit(rows)
        parts = [(g.mean.toArray(), g.cov.toArray()) for g in model.gaussians]
        weights = np.log(np.asarray(model.weights))

        def density(held: FloatArray) -> float:
            found = [multivariate_normal(mean, cov).logpdf(held) for mean, cov in parts]
            return float(logsumexp(np.array(found).T + weights, axis=1).mean())

        return density

    return fits


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=8)
    parser.add_argument("--components", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--iterations", type=int, nargs="+", default=ROUNDS, help="of the others")
    parser.add_argument("--sweeps", type=int, default=max(ROUNDS), help="of ours")
    given = parser.parse_args(arguments)
    curves: dict[str, list[beside.Curve]] = {}
    model = Mixture(given.components)
    with threadpool_limits(1):
        for seed in range(given.seeds):
            prior = Mixture(weight0=0.05, freedom=10.0)
            rng = np.random.default_rng(seed)
            x, _ = simulate(
                rng, given.rows + given.rows // 10, given.components, given.columns, prior
            )
            x = (x - x.mean(0)) / x.std(0)
            train, held = x[: given.rows], x[given.rows :]
            batches = [Rows(part) for part in np.array_split(train, 8)]

            def value(q: object, held: FloatArray = held) -> float:
                return float(told(q, held)[1].mean())

            for name, loop in (("vbflows_mixture, squarem", None), ("vbflows_mixture, cavi", cavi)):
                curve = beside.ours(
                    model, batches, value, seed=seed, sweeps=given.sweeps, loop=loop
                )
                curves.setdefault(name, []).append(curve)
            fits = rival(train, model, seed)
            curve = beside.anew(
                fits, given.iterations, lambda fitted, held=held: fitted.score(held)
            )
            curves.setdefault("scikit-learn", []).append(curve)
            if beside.absent("pyspark"):
                continue
            with tempfile.TemporaryDirectory() as folder, spark.session(folder) as session:
                by_spark = spark_rival(session, folder, train, given.components)
                by_spark(seed, 2)  # what the virtual machine compiles at first
                curve = beside.anew(
                    partial(by_spark, seed), given.iterations,
                    lambda fitted, held=held: fitted(held), spark.cpu,
                )  # fmt: skip
                curves.setdefault("Spark MLlib, EM", []).append(curve)
    print(
        f"{given.rows:,} rows, {given.columns} columns, {given.components} components, "
        f"medians of {given.seeds} seeds"
    )
    print(beside.compared(curves, within=0.005, unit="nats a held-out row"))


if __name__ == "__main__":
    main()
