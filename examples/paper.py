"""The whole method on one page, in plain PyTorch and numpy: a reading copy and an oracle.

Wang, Saxon, Li, Zhang, Zhang, Wang: Causal Balancing for Domain Generalization, ICLR 2023.
Section and equation numbers are the paper's. Run it: `python examples/paper.py`, two minutes.
The package does the same faster, on larger data and with checks; its tests compare the two.
"""

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, one_hot


def perceptron(n_in, n_out, width=512):
    layers = nn.Linear(n_in, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
    return nn.Sequential(*layers, nn.Linear(width, n_out))


class VAE(nn.Module):
    """Section 3.1, Equation 2: p^e(X, Z | Y) = p_f(X | Z, Y) · p^e(Z | Y)."""

    def __init__(self, n_pixels, n_labels, n_environments):
        super().__init__()
        self.m, self.E = n_labels, n_environments
        # Theorem 3.3 needs m·|E| > n·k. A Gaussian with fixed variance has k = 1.
        self.n = min(self.m * self.E - 1, 16)
        self.encoder = perceptron(n_pixels + self.m + self.E, 2 * self.n)  # q^e(Z | X, Y)
        self.decoder = perceptron(self.n + self.m, n_pixels)  # f_Y(Z), the same for all e
        self.prior = nn.Parameter(torch.zeros(self.m, self.E, self.n))  # λ^e(y): mean of Z

    def encode(self, x, y, e):
        """Mean and log-variance of q^e(Z | X, Y), each [B, n]."""
        given = x.flatten(1), one_hot(y, self.m), one_hot(e, self.E)
        return self.encoder(torch.cat(given, dim=1)).chunk(2, dim=1)

    def decode(self, z, y):
        return self.decoder(torch.cat([z, one_hot(y, self.m)], dim=1))

    def elbo(self, x, y, e, noise, kl_weight=1.0):
        """L^e of Section 3.1, up to a constant: [B]."""
        mean, log_variance = self.encode(x, y, e)
        z = mean + noise * (0.5 * log_variance).exp()  # reparameterisation
        log_likelihood = -0.5 * (x.flatten(1) - self.decode(z, y)).square().sum(1)
        shift = (mean - self.prior[y, e]).square()
        kl = 0.5 * (log_variance.exp() + shift - 1 - log_variance).sum(1)  # to N(prior, 1)
        return log_likelihood - kl_weight * kl

    def log_prior(self, z, e):
        """log p^e(z | y') for every label y': [B, m]; z is [B, n], or [B, m, n] for a z per y'."""
        z = z if z.ndim == 3 else z[:, None]
        return -0.5 * (z - self.prior[:, e].transpose(0, 1)).square().sum(2)


def fit(vae, x, y, e, steps, seed=0):
    """Maximise the mean ELBO over environments."""
    generator = torch.Generator().manual_seed(seed)
    networks = [*vae.encoder.parameters(), *vae.decoder.parameters()]
    groups = {"params": networks, "lr": 1e-3}, {"params": [vae.prior], "lr": 1e-2}
    optimizer = torch.optim.Adam(groups, fused=True)
    members = [torch.where(e == environment)[0] for environment in range(vae.E)]
    for step in range(steps):
        rows = torch.cat([r[torch.randint(len(r), (64,), generator=generator)] for r in members])
        noise = torch.randn(len(rows), vae.n, generator=generator)
        kl_weight = min(1.0, (step + 1) / 100)  # first use z, then pay for it
        optimizer.zero_grad()
        (-vae.elbo(x[rows], y[rows], e[rows], noise, kl_weight).mean()).backward()
        optimizer.step()


@torch.no_grad()
def log_propensity(vae, x, y, e, reading="hypothesised"):
    """Equation 3: log p^e(Y = y' | z) ∝ log p^e(z | y') + log p^e(y'), as an array [N, m].

    The paper's text infers z with the label of the example ("observed"); its authors' code
    infers a z under every label y' ("hypothesised"), which no label enters.
    """
    counts = torch.bincount(e * vae.m + y, minlength=vae.E * vae.m).double().view(vae.E, vae.m)
    if reading == "observed":
        z = vae.encode(x, y, e)[0]
    else:
        every = [torch.full_like(y, label) for label in range(vae.m)]
        z = torch.stack([vae.encode(x, label, e)[0] for label in every], dim=1)
    log_joint = vae.log_prior(z.double(), e) + (counts / counts.sum(1, keepdim=True)).log()[e]
    return log_joint.log_softmax(dim=1).numpy()


def match(log_scores, y, e, rows_at_once=512):
    """Line 9 of Algorithm 1 with d = KL(anchor ‖ candidate): [N, m], −1 for the own label."""
    found = np.full(log_scores.shape, -1)
    for environment, label in np.ndindex(e.max() + 1, log_scores.shape[1]):
        anchors = np.flatnonzero((e == environment) & (y != label))
        candidates = np.flatnonzero((e == environment) & (y == label))
        for some in np.array_split(anchors, len(anchors) // rows_at_once + 1):
            p = np.exp(log_scores[some])  # Σ p·log p is the same for every candidate
            cross_entropy_to = -p @ log_scores[candidates].T  # [anchors, candidates]
            found[some, label] = candidates[cross_entropy_to.argmin(axis=1)]
    return found


def balanced_batch(matches, y, e, B, a, generator):
    """Algorithm 1: B anchors of every environment, each with `a` matches of other labels."""
    batch = []
    for environment in range(e.max() + 1):
        for anchor in generator.choice(np.flatnonzero(e == environment), B):
            others = np.flatnonzero(np.arange(matches.shape[1]) != y[anchor])
            alternatives = generator.choice(others, a, replace=False)  # Y_alt
            batch += [anchor, *matches[anchor, alternatives]]
    return np.array(batch)


def train(x, y, draw, steps, seed=0):
    """Empirical risk minimisation on whatever batches `draw` gives."""
    torch.manual_seed(seed)
    layers = []
    for n_in, n_out in ((x.shape[1], 16), (16, 32)):
        layers += [nn.Conv2d(n_in, n_out, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * 49, int(y.max()) + 1))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-2)
    for _ in range(steps):
        rows = torch.from_numpy(draw())
        optimizer.zero_grad()
        cross_entropy(net(x[rows]), y[rows]).backward()
        optimizer.step()
    return net.eval()


def main(vae_steps=1000, steps=400):
    from equipoise.data import get_dataset  # only the digits are taken from the package

    torch.set_flush_denormal(True)
    data, generator = get_dataset("ColoredMNIST"), np.random.default_rng(0)
    x, y, e = data.fetch(np.arange(len(data))), data.labels, data.environments
    seen, unseen = e < 2, torch.from_numpy(e == 2)  # train where colour predicts the label
    x_train, y_train, e_train = x[seen], torch.from_numpy(y[seen]), torch.from_numpy(e[seen])
    vae = VAE(x_train[0].numel(), n_labels=2, n_environments=2)
    fit(vae, x_train, y_train, e_train, vae_steps)
    matches = match(log_propensity(vae, x_train, y_train, e_train), y[seen], e[seen])
    batches = {
        "random": lambda: generator.integers(seen.sum(), size=256),
        "balanced": lambda: balanced_batch(matches, y[seen], e[seen], 64, 1, generator),
    }
    for name, draw in batches.items():
        net = train(x_train, y_train, draw, steps)
        with torch.no_grad():
            correct = (net(x[unseen]).argmax(1).numpy() == y[unseen]).mean()
        print(f"{name} batches: accuracy {correct:.1%} where the colour is reversed")


if __name__ == "__main__":
    main()
