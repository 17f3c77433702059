"""Rivals of vMMIC: logistic regressions on bags and on instances, and attention (ABMIL).

Each takes training bags and returns what predicts new ones.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from vbmodels.bags.batch import Bags
from vbmodels.bags.posterior import Prediction

try:
    import torch
    from torchmil.models import ABMIL
except ImportError:
    torch = None

Fitted = Callable[[Bags], Prediction]
Methods = dict[str, Callable[[Bags], Fitted]]

EPOCHS, BATCH, RATE, DECAY, WIDTH = 100, 32, 1e-3, 1e-4, 64


def blocks(data: Bags) -> tuple[np.ndarray, np.ndarray]:
    """Return all instances in one matrix, modalities in blocks beside zeros, and their bags."""
    widths = [m.n_features for m in data.modalities]
    starts = np.cumsum([0, *widths])
    x = np.zeros((data.n_instances, starts[-1]))
    first = 0
    for k, m in enumerate(data.modalities):
        x[first : first + len(m.features), starts[k] : starts[k + 1]] = m.features
        first += len(m.features)
    return x, np.concatenate([m.bag for m in data.modalities])


def means(some: Bags) -> np.ndarray:
    """Return each bag's mean features."""
    columns = []
    for m in some.modalities:
        sums = [np.bincount(m.bag, x, some.n_bags) for x in m.features.T]
        columns.append(np.array(sums).T / np.maximum(m.sizes, 1)[:, None])
    return np.hstack(columns)


def pooled(data: Bags) -> Fitted:
    """Logistic regression on each bag's mean features (scikit-learn, its defaults)."""
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    model.fit(means(data), data.label)
    return lambda new: Prediction(model.predict_proba(means(new))[:, 1], (), ())


def pooled_by_folds(data: Bags) -> Fitted:
    """The same with its penalty chosen by five folds of the training bags."""
    regression = LogisticRegressionCV(
        Cs=9, cv=5, scoring="neg_log_loss", max_iter=2000, l1_ratios=(0.0,),
        use_legacy_attributes=False,
    )  # fmt: skip
    model = make_pipeline(StandardScaler(), regression).fit(means(data), data.label)
    return lambda new: Prediction(model.predict_proba(means(new))[:, 1], (), ())


def single(data: Bags) -> Fitted:
    """Logistic regression on instances that carry their bag's label; a bag is their mean."""
    x, bag = blocks(data)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    model.fit(x, data.label[bag])

    def predicted(new: Bags) -> Prediction:
        x, bag = blocks(new)
        p = model.predict_proba(x)[:, 1]
        size = np.maximum(np.bincount(bag, minlength=new.n_bags), 1)
        ends = np.cumsum([len(m.features) for m in new.modalities])[:-1]
        return Prediction(np.bincount(bag, p, new.n_bags) / size, tuple(np.split(p, ends)), ())

    return predicted


def attention(data: Bags) -> Fitted:
    """torchmil's ABMIL over one hidden layer; an instance's score is its attention.

    Features are standardised, modalities stand in blocks beside zeros and a mark of which it
    is. Adam for a fixed number of epochs, on one thread, from a fixed seed.
    """
    torch.manual_seed(0)
    torch.set_num_threads(1)
    scaler = StandardScaler().fit(blocks(data)[0])
    x, mask, _ = _padded(data, scaler)
    width = x.shape[-1]
    hidden = torch.nn.Sequential(torch.nn.Linear(width, WIDTH), torch.nn.ReLU())
    model = ABMIL(in_shape=(width,), feat_ext=hidden)
    label = torch.tensor(data.label, dtype=torch.float32)
    step = torch.optim.Adam(model.parameters(), lr=RATE, weight_decay=DECAY)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x)).split(BATCH):
            step.zero_grad()
            _, loss = model.compute_loss(label[rows], x[rows], mask[rows])
            sum(loss.values()).backward()
            step.step()

    def predicted(new: Bags) -> Prediction:
        x, mask, place = _padded(new, scaler)
        with torch.no_grad():
            logit, found = model(x, mask, return_att=True)
        ends = np.cumsum([len(m.features) for m in new.modalities])[:-1]
        score = found.numpy().astype(float)[place]
        return Prediction(torch.sigmoid(logit).numpy().astype(float),
                          tuple(np.split(score, ends)), ())  # fmt: skip

    return predicted


def _padded(
    data: Bags, scaler: StandardScaler
) -> tuple[torch.Tensor, torch.Tensor, tuple[np.ndarray, np.ndarray]]:
    """Return instances [B, most, D], which of them there are, and each row's place."""
    x, bag = blocks(data)
    kind = np.repeat(np.eye(len(data.modalities)), [len(m.features) for m in data.modalities], 0)
    x = np.hstack([scaler.transform(x), kind])
    order = np.argsort(bag, kind="stable")
    sizes = np.bincount(bag, minlength=data.n_bags)
    inside = np.empty(bag.size, np.int64)
    inside[order] = np.arange(bag.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    padded = np.zeros((data.n_bags, sizes.max(), x.shape[1]), np.float32)
    mask = np.zeros(padded.shape[:2], bool)
    padded[bag, inside], mask[bag, inside] = x, True
    return torch.tensor(padded), torch.tensor(mask), (bag, inside)


RIVALS: Methods = {"mean-pooled logistic": pooled, "single-instance logistic": single}
ATTENTION: Methods = {} if torch is None else {"ABMIL (torchmil)": attention}
MISSING = "" if ATTENTION else "torchmil is not installed here: its rows are left out"
