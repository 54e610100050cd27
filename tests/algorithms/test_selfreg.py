import numpy as np
import torch

from . import reference as ref
from .tiny import make_double, tiny_batches


def project(w, f):
    hidden = f
    for layer, norm in ((0, 1), (3, 4)):
        hidden = ref.linear(w, hidden, f"projection.{layer}")
        hidden = np.maximum(ref.batch_norm(hidden, w, f"projection.{norm}"), 0)
    return ref.batch_norm(ref.linear(w, hidden, "projection.6"), w, "projection.7")


def test_partners_are_a_shuffle_within_each_label():
    selfreg = make_double("SelfReg")
    labels = torch.tensor([2, 0, 2, 2, 0, 4, 2])
    seen = [set() for _ in labels]
    for _ in range(200):
        partners = selfreg.draw_same_label(labels)
        assert sorted(partners.tolist()) == list(range(len(labels)))
        assert torch.equal(labels[partners], labels)
        for places, partner in zip(seen, partners.tolist(), strict=True):
            places.add(partner)
    assert [len(places) for places in seen] == [4, 2, 4, 4, 2, 1, 4]


def test_the_objective_adds_the_distances_to_peers_and_their_mixture(monkeypatch):
    selfreg = make_double("SelfReg")
    batches = tiny_batches(dtype=torch.float64)
    data = ref.arrays(batches)
    x = np.concatenate([part for part, _ in data])
    y = np.concatenate([part for _, part in data])
    share = 0.3
    monkeypatch.setattr(selfreg, "draw_beta", lambda alpha: share)
    other, third = (np.roll(np.arange(16), k) for k in (1, 3))
    peers = iter([torch.tensor(other), torch.tensor(third)])
    monkeypatch.setattr(selfreg, "draw_same_label", lambda labels: next(peers))
    start = ref.weights_of(selfreg)
    scale = min(ref.cross_entropy(ref.predict(start, x), y), 1.0)

    def expected(w):
        f = ref.encode(w, x)
        logits, projected = ref.linear(w, f), project(w, f)
        total = 0.0
        for factor, own, peer in ((1.0, logits, logits), (0.3, f, projected)):
            single = np.mean((own - peer[other]) ** 2)
            mixed = np.mean((own - (share * peer[other] + (1 - share) * peer[third])) ** 2)
            total += factor * (share * single + (1 - share) * mixed)
        return float(ref.cross_entropy(logits, y) + scale * total)

    ref.assert_value_and_gradient_match(selfreg, selfreg.objective(batches)[0], expected)


def test_the_projection_is_trained():
    selfreg = make_double("SelfReg")
    before = selfreg.projection[0].weight.detach().clone()
    selfreg.update(tiny_batches(dtype=torch.float64))
    assert not torch.equal(before, selfreg.projection[0].weight)
