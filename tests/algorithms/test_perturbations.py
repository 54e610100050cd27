import numpy as np
import torch

from equipoise.algorithms import perturbations

from . import reference as ref
from .tiny import make_double, tiny_batches


def test_the_objective_mixes_inputs_and_labels_round_a_random_circle(monkeypatch):
    mixup = make_double("Mixup", n_environments=3)
    batches = tiny_batches((9, 7, 4), dtype=torch.float64)
    shares = [0.9, 0.3, 0.6]
    remaining = iter(shares)
    monkeypatch.setattr(perturbations, "draw_beta", lambda alpha, generator: next(remaining))
    circle = torch.randperm(3, generator=ref.twin(mixup.generator)).tolist()

    def expected(w):
        data, total = ref.arrays(batches), 0.0
        for place, share in enumerate(shares):
            x_i, y_i = data[circle[place]]
            x_j, y_j = data[circle[(place + 1) % 3]]
            n = min(len(y_i), len(y_j))
            for k in range(n):
                logits = ref.predict(w, (share * x_i[k] + (1 - share) * x_j[k])[None])
                log_p = np.log(ref.softmax(logits)[0])
                total -= (share * log_p[y_i[k]] + (1 - share) * log_p[y_j[k]]) / n / 3
        return float(total)

    ref.assert_value_and_gradient_match(mixup, mixup.objective(batches)[0], expected)


def test_the_shares_follow_the_beta_distribution():
    mixup = make_double("Mixup")
    draws = np.array([perturbations.draw_beta(0.2, mixup.generator) for _ in range(4000)])
    assert abs(draws.mean() - 0.5) < 0.03
    assert abs(draws.var() - 0.25 / (2 * 0.2 + 1)) < 0.01  # the variance of Beta(α, α)


def kept_by_loops(w, f, y):
    kept = np.ones_like(f)
    drops = np.empty(len(f))
    muted = np.empty_like(f)
    for n, row in enumerate(f):
        slopes = w["classifier.weight"][y[n]]
        muted[n] = np.where(slopes < np.percentile(slopes, 100 * (1 - 0.4)), 1.0, 0.0)
        before = ref.softmax(ref.linear(w, row[None]))[0, y[n]]
        drops[n] = before - ref.softmax(ref.linear(w, (row * muted[n])[None]))[0, y[n]]
    bound = np.percentile(drops, 100 * (1 - 0.25))
    for n in range(len(f)):
        if drops[n] >= bound:
            kept[n] = muted[n]
    return kept


def test_the_most_telling_features_of_the_most_shaken_examples_are_muted():
    rsc = make_double("RSC", rsc_f_drop_factor=0.4, rsc_b_drop_factor=0.25)
    batches = tiny_batches(dtype=torch.float64)
    data = ref.arrays(batches)
    x = np.concatenate([part for part, _ in data])
    y = np.concatenate([part for _, part in data])
    start = ref.weights_of(rsc)
    kept = kept_by_loops(start, ref.encode(start, x), y)
    assert (kept == 0).any(axis=1).sum() == 4  # a quarter of 16 examples

    fast = rsc.kept_features(torch.tensor(ref.encode(start, x)), torch.tensor(y))
    np.testing.assert_array_equal(fast.numpy(), kept)

    def expected(w):
        return ref.cross_entropy(ref.linear(w, ref.encode(w, x) * kept), y)

    ref.assert_value_and_gradient_match(rsc, rsc.objective(batches)[0], expected)


def test_double_precision_slopes_are_compared_in_double_precision():
    """Rounded to single precision the quantile would fall on the wrong side of its own slope."""
    rsc = make_double("RSC", rsc_f_drop_factor=0.4, rsc_b_drop_factor=1.0)
    torch.manual_seed(0)
    for _ in range(20):
        torch.nn.init.normal_(rsc.classifier.weight)
        features, labels = torch.randn(4, 5, dtype=torch.float64), torch.tensor([0, 1, 2, 0])
        kept = rsc.kept_features(features, labels).numpy()
        slopes = rsc.classifier.weight.detach().numpy()[labels]
        bounds = np.percentile(slopes, 60, axis=1, keepdims=True)
        np.testing.assert_array_equal(kept, slopes < bounds)


EPSILON = 1e-5


def separate(f):
    mean = f.mean(axis=1, keepdims=True)
    variance = f.var(axis=1, ddof=1, keepdims=True)
    return (f - mean) / np.sqrt(variance + EPSILON), mean, variance


def test_each_of_the_three_steps_minimises_its_own_loss():
    sagnet = make_double("SagNet", sag_w_adv=0.4)
    batches = tiny_batches((5, 4), dtype=torch.float64)
    data = ref.arrays(batches)
    x = np.concatenate([part for part, _ in data])
    y = np.concatenate([part for _, part in data])
    draws = ref.twin(sagnet.generator)
    share = torch.rand(9, 1, generator=draws).double().numpy()
    other, second, third = (torch.randperm(9, generator=draws).numpy() for _ in range(3))

    def content_loss(w):
        content, mean, variance = separate(ref.encode(w, x))
        mean = share * mean + (1 - share) * mean[other]
        variance = share * variance + (1 - share) * variance[other]
        return ref.cross_entropy(ref.linear(w, content * np.sqrt(variance + EPSILON) + mean), y)

    def style_logits(w, order, content):
        _, mean, variance = separate(ref.encode(w, x))
        swapped = content[order] * np.sqrt(variance + EPSILON) + mean
        return ref.linear(w, swapped, "style_classifier")

    steps = ref.record_steps(sagnet)
    sagnet._update(batches)
    content, style, adversary = steps
    # the content that is swapped in passes no gradient
    fixed = [separate(ref.encode(step.weights, x))[0] for step in (style, adversary)]

    assert content.optimizers == ("featurizer", "content")
    content.assert_matches(content_loss)

    assert style.optimizers == ("style",)
    style.assert_matches(lambda w: ref.cross_entropy(style_logits(w, second, fixed[0]), y))

    assert adversary.optimizers == ("featurizer",)
    adversary.assert_matches(
        lambda w: -0.4 * float(np.log(ref.softmax(style_logits(w, third, fixed[1]))).mean())
    )


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
    monkeypatch.setattr(perturbations, "draw_beta", lambda alpha, generator: share)
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
