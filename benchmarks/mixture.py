"""A Gaussian mixture beside scikit-learn: CPU and time to the same held-out log density.

    python -m benchmarks.mixture [--rows 100000] [--columns 8] [--components 10] [--seeds 3]

The example package `vbflows_mixture` and `BayesianGaussianMixture` with full covariances and the
same priors, on simulated rows with mean 0 and sd 1; a tenth is held out. Values are log densities
a held-out row, by the posterior predictive density of ours and by the mean parameters of theirs.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples" / "vbflows_mixture"))

from vbflows_mixture.model import Mixture, Rows  # noqa: E402
from vbflows_mixture.predict import told  # noqa: E402
from vbflows_mixture.simulate import simulate  # noqa: E402

from benchmarks import beside  # noqa: E402
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=8)
    parser.add_argument("--components", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
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
                curve = beside.ours(model, batches, value, seed=seed, sweeps=max(ROUNDS), loop=loop)
                curves.setdefault(name, []).append(curve)
            fits = rival(train, model, seed)
            curve = beside.anew(fits, ROUNDS, lambda fitted, held=held: fitted.score(held))
            curves.setdefault("scikit-learn", []).append(curve)
    print(
        f"{given.rows:,} rows, {given.columns} columns, {given.components} components, "
        f"medians of {given.seeds} seeds"
    )
    print(beside.compared(curves, within=0.005, unit="nats a held-out row"))


if __name__ == "__main__":
    main()
