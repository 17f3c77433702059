"""What the algorithm that the text prints does: it collapses, far below the corrected forms."""

from dataclasses import replace

import numpy as np
import pytest

from reproduce.keyword_documents import fit_documents
from reproduce.vbss_as_printed import PrintedVBSS
from tests.vbmodels.keywords.keyword_documents import adjacency, batch_of
from vbmodels.keywords.selection import select_by_fdr
from vbmodels.keywords.vbss.model import VBSS

pytestmark = pytest.mark.thorough  # a form of the papers


@pytest.fixture(scope="module")
def documents():
    """Ten documents of random words, five of which are known."""
    rng = np.random.default_rng(0)
    made = []
    for _ in range(10):
        words = rng.zipf(1.6, 120) % 40
        found, place = np.unique(words, return_inverse=True)
        y = np.zeros(len(found), bool)
        y[rng.choice(len(found), 5, replace=False)] = True
        made.append((y, adjacency(place, len(found))))
    return made


def shrinkage(y, a):
    """The factor of lambda in a sweep, when b is 0 and lambda tiny.

    Then q(theta_i) has variance s_i / lambda with s_i = 1/(v + 1/U_ii), where E[b^2] =
    v lambda was made a sweep earlier. Without v the factor is n / sum P_ii U_ii.
    """
    degree = a.sum(axis=1)
    root = np.sqrt(np.where(degree > 0, degree, 1.0))
    b = np.eye(len(y)) - 0.85 * a / np.outer(root, root)
    p = b.T @ b
    u, v = np.linalg.inv(p), 0.0
    for _ in range(100):
        s = 1 / (v + 1 / np.diag(u))
        factor = (len(y) + 0.2) / (np.diag(p) @ s)
        v = 1 / (factor * s.sum())
    return factor


def test_the_printed_algorithm_collapses(documents):
    """E[1/sigma^2] falls by one factor a sweep, b to 0, and all p-hat of a document are equal."""
    batch, model = batch_of(documents), PrintedVBSS(sweeps=150, tolerance=-1.0)  # never settled
    q = model.init(model.observe(batch), None)
    local = model.local_step(q, batch, None)
    again = replace(model, sweeps=1).local_step(q, batch, local)
    factor = np.array([shrinkage(y, a) for y, a in documents])
    assert np.all(factor < 0.9)
    np.testing.assert_allclose(local.rate / again.rate, factor, rtol=1e-6)
    assert np.abs(local.b).max() < 1e-6
    p_hat = model.probabilities(q, batch, local)
    assert max(np.ptp(p_hat[batch.words(d)]) for d in range(len(documents))) < 1e-6
    chosen = select_by_fdr(p_hat, batch.y, batch.offsets, 0.3)
    assert not chosen[~batch.y].any()


def test_its_bound_is_far_below_those_of_the_corrected_forms(documents):
    batch = batch_of(documents)
    models = (VBSS(), VBSS(form="mean_field"), PrintedVBSS())
    full, field, printed = (fit_documents(batch, model, 300).bound for model in models)
    assert np.all(full > field)
    assert np.all(field > printed + 20)
