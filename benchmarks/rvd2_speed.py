"""What variant calling costs: microseconds by part, sweeps, bytes."""

from __future__ import annotations

import resource
import time

import numpy as np
from numba import njit
from scipy.special import digamma, polygamma

from vbmodels.core.fit import fit
from vbmodels.variants import table
from vbmodels.variants.batch import totals, units
from vbmodels.variants.elementary_kernels import polygammas
from vbmodels.variants.published.rvd2 import RVD2, Errors
from vbmodels.variants.simulate import simulate
from vbmodels.variants.two_groups import MIXTURE, TwoGroups


def run_speed() -> str:
    """Microseconds a unit and pass, a location and sweep, on simulated counts at 4000 reads."""
    lines = []
    counts, _ = simulate(np.random.default_rng(0), n_locations=2000, n_variants=20)
    for n in (1, 3, 6):
        few, _ = simulate(np.random.default_rng(0), n_locations=700, n_variants=10, n_replicates=n)
        of, model = units(few), TwoGroups()
        q = model.init(model.observe(few), np.random.default_rng(0))
        tabulated = table.tabulate(of, q.anchor)
        model.reweigh(q, tabulated)
        t0 = time.process_time()
        table.tabulate(of, q.anchor)
        t1 = time.process_time()
        model.reweigh(q, tabulated)
        t2 = time.process_time()
        small = of.take(slice(0, 200))
        t3 = time.process_time()
        plain = table.tabulate(small, q.anchor, compiled=False)
        TwoGroups(compiled=False).reweigh(q, plain)
        t4 = time.process_time()
        per = 1e6 / len(of)
        lines.append(
            f"two groups, N = {n}: table {(t1 - t0) * per:.0f} us, pass over it "
            f"{(t2 - t1) * per:.0f} us, both {(t2 - t0) * per:.0f} us a unit (goal .15 ms at "
            f"N = 3); NumPy {(t4 - t3) / 200 * 1e6:.0f} us."
        )
    r, n = totals(counts)
    data = Errors(r[:, counts.case], n[:, counts.case])
    for inference in ("collapsed", "mean_field"):
        model = RVD2(inference=inference, n_nodes=24)
        fit(model, [Errors(data.r[:5], data.n[:5])], tol=1e-4)
        begun = time.process_time()
        done = fit(model, [data], tol=1e-7, max_iter=300)
        per = (time.process_time() - begun) / done.iterations / len(data.r) * 1e6
        q, local = done.q, done.reduce.local_states(done.iterations - 1)[0]
        plain = RVD2(inference=inference, n_nodes=24, compiled=False)
        begun = time.process_time()
        few = Errors(data.r[:200], data.n[:200])
        plain.local_step(q, few, None)
        slow = (time.process_time() - begun) / 200 * 1e6
        begun = time.process_time()
        model.local_step(q, few, None)
        fast = (time.process_time() - begun) / 200 * 1e6
        lines.append(
            f"RVD2 {inference}, 24 nodes, N = 3: {per:.1f} us a location and sweep over "
            f"{done.iterations} sweeps (goal 10); from a cold start {fast:.0f} us, NumPy "
            f"{slow:.0f} us ({slow / fast:.0f} times)."
        )
        del local
    lines.append(special_functions())
    return "\n\n".join(lines)


def special_functions() -> str:
    """The kernel's digamma and trigamma beside SciPy's, one thread, values from .01 to 1e6."""

    @njit
    def both(z, out):
        for i in range(z.shape[0]):
            out[0, i], out[1, i] = polygammas(z[i])

    z = np.exp(np.random.default_rng(0).uniform(np.log(0.01), np.log(1e6), 200_000))
    out = np.empty((2, len(z)))
    both(z, out)
    t0 = time.process_time()
    both(z, out)
    t1 = time.process_time()
    psi, tri = digamma(z), polygamma(1, z)
    t2 = time.process_time()
    worst = max(np.abs(out[0] - psi).max(), np.abs(out[1] / tri - 1).max())
    return (
        f"psi and psi' together: kernel {(t1 - t0) / len(z) * 1e9:.0f} ns an element, SciPy "
        f"{(t2 - t1) / len(z) * 1e9:.0f} ns ({(t2 - t1) / (t1 - t0):.0f} times); largest "
        f"difference {worst:.1e}."
    )


def large(locations: int) -> str:
    """Both models on many locations: time a location, sweeps, bytes."""
    rng = np.random.default_rng(0)
    counts, _ = simulate(rng, n_locations=locations, n_variants=locations // 1000, depth=1000)
    model = TwoGroups(alternatives=MIXTURE)
    sample = counts.take(np.sort(rng.choice(locations, min(2000, locations), replace=False)))
    begun = time.process_time()
    done = fit(model, [sample], tol=1e-6)
    middle = time.process_time()
    q = model.anchored(done.q)
    for start in range(0, locations, 1000):
        of = units(counts.take(slice(start, start + 1000)))
        model.reweigh(q, table.tabulate(of, q.anchor))
    end = time.process_time()
    lines = [
        f"{locations:,} locations x 6 replicates, counts {counts.counts.nbytes / 2**20:.0f} MiB.",
        f"Two groups: fit on {3 * len(sample)} units in {middle - begun:.1f} s "
        f"({done.iterations} passes), one pass over all in {end - middle:.0f} s = "
        f"{(end - middle) / locations * 1e6:.0f} us a location; the table of 1000 locations at a "
        f"time {3000 * 400 * 4 * 8 / 2**20:.0f} MiB.",
    ]
    r, n = totals(counts)
    data = Errors(np.ascontiguousarray(r[:, counts.case]), np.ascontiguousarray(n[:, counts.case]))
    del counts, r, n
    for inference in ("collapsed", "mean_field"):
        papers_model = RVD2(inference=inference, n_nodes=24)
        fit(papers_model, [Errors(data.r[:5], data.n[:5])], tol=1e-4)
        begun = time.process_time()
        found = fit(papers_model, [data], tol=1e-8, max_iter=300)
        seconds = time.process_time() - begun
        per = seconds / found.iterations / locations * 1e6
        lines.append(
            f"RVD2 {inference}, 24 nodes, N = 3: {found.iterations} sweeps, {per:.1f} us a "
            f"location and sweep; counts {data.r.nbytes * 2 // locations} and q(mu) 24 bytes a "
            "location, a second q(mu) while it is replaced."
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return "\n\n".join([*lines, f"Peak of the process {peak:.0f} MiB."])
