import numpy as np
import torch

from . import reference as ref
from .tiny import make_double, tiny_batches


def test_the_objective_mixes_inputs_and_labels_round_a_random_circle(monkeypatch):
    mixup = make_double("Mixup", n_environments=3)
    batches = tiny_batches((9, 7, 4), dtype=torch.float64)
    shares = [0.9, 0.3, 0.6]
    remaining = iter(shares)
    monkeypatch.setattr(mixup, "draw_beta", lambda alpha: next(remaining))
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
    draws = np.array([mixup.draw_beta(0.2) for _ in range(4000)])
    assert abs(draws.mean() - 0.5) < 0.03
    assert abs(draws.var() - 0.25 / (2 * 0.2 + 1)) < 0.01  # the variance of Beta(α, α)
