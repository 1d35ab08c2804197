"""Slow NumPy versions of the reward modules, written from the papers: one transition at a time, in float64."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Layers = Sequence[tuple[np.ndarray, np.ndarray]]


def state_key(facts: dict[str, Any], names: Sequence[str], t: int, i: int) -> tuple:
    return tuple(tuple(np.ravel(facts[name][t, i]).tolist()) for name in names)


class CountOracle:
    """beta / n^power with dictionaries."""

    def __init__(self, names, beta, power, scope, count_first, action, num_envs):
        self.names, self.beta, self.power, self.action = names, beta, power, action
        self.first = count_first and scope == "episode" and not action
        self.episodic = scope == "episode"
        self.tables = [Counter() for _ in range(num_envs)] if self.episodic else [Counter()] * num_envs
        self.fresh = [True] * num_envs

    def reward(self, batch: Any) -> np.ndarray:
        num_steps, num_envs = batch.reward.shape
        rewards = np.zeros((num_steps, num_envs))
        for t in range(num_steps):
            keys = []
            for i in range(num_envs):
                if self.episodic and self.fresh[i]:
                    self.tables[i] = Counter()
                    if self.first:
                        self.tables[i][state_key(batch.facts, self.names, t, i)] += 1
                keys.append(self.key(batch, t, i))
                self.tables[i][keys[i]] += 1
                self.fresh[i] = bool(batch.terminated[t, i] or batch.truncated[t, i])
            for i in range(num_envs):
                rewards[t, i] = self.beta / self.tables[i][keys[i]] ** self.power
        return rewards

    def key(self, batch: Any, t: int, i: int) -> tuple:
        key = state_key(batch.facts if self.action else batch.next_facts, self.names, t, i)
        return (*key, int(batch.action[t, i])) if self.action else key


class PotentialOracle:
    """F = gamma w(t') Phi(s') - w(t) Phi(s), with w(t) Phi(s) kept from when s was visited."""

    def __init__(self, fn: Callable[[dict], float], gamma: float, weight: Callable[[int], float], num_envs: int):
        self.fn, self.gamma, self.weight = fn, gamma, weight
        self.kept: list[Any] = [None] * num_envs
        self.frames = 0

    def reward(self, batch: Any) -> np.ndarray:
        num_steps, num_envs = batch.reward.shape
        rewards = np.zeros((num_steps, num_envs))
        for t in range(num_steps):
            for i in range(num_envs):
                if self.kept[i] is None:
                    self.kept[i] = self.weight(self.frames) * self.fn({k: v[t, i] for k, v in batch.facts.items()})
                arrived = {k: v[t, i] for k, v in batch.next_facts.items()}
                following = self.weight(self.frames + num_envs) * self.fn(arrived)
                rewards[t, i] = self.gamma * (0.0 if batch.terminated[t, i] else following) - self.kept[i]
                self.kept[i] = None if batch.terminated[t, i] or batch.truncated[t, i] else following
            self.frames += num_envs
        return rewards


class ReturnStdOracle:
    """The std of every value the discounted sum has had, over all environments and rollouts."""

    def __init__(self, gamma: float, num_envs: int):
        self.gamma, self.sums, self.values = gamma, np.zeros(num_envs), []

    def std(self, rewards: Any) -> float:
        for row in np.asarray(rewards, np.float64):
            self.sums = self.gamma * self.sums + row
            self.values.extend(self.sums)
        return float(np.std(self.values))


class WhitenOracle:
    """Whitening by the mean and variance of every sample so far."""

    def __init__(self):
        self.samples = []

    def add(self, samples: Any) -> None:
        self.samples.extend(np.asarray(samples, np.float64).reshape(-1, *samples.shape[2:]))

    def __call__(self, samples: np.ndarray, clip: float) -> np.ndarray:
        mean, var = np.mean(self.samples, axis=0), np.var(self.samples, axis=0)
        return np.clip((samples - mean) / np.sqrt(var + 1e-8), -clip, clip)


def layers_of(params: dict) -> list[tuple[np.ndarray, np.ndarray]]:
    """The layers of an `Embedding` around an `MLP` encoder, first to last, in float64."""
    params = params["params"]
    dense = [params["encoder"][f"Dense_{k}"] for k in range(len(params["encoder"]))]
    dense += [params[f"Dense_{k}"] for k in range(len(params) - 1)]
    return [(np.asarray(d["kernel"], np.float64), np.asarray(d["bias"], np.float64)) for d in dense]


def forward(layers: Layers, x: np.ndarray) -> list[np.ndarray]:
    """Inputs of all layers and the output, of a ReLU network with a linear last layer, for rows `[B, ...]`."""
    values = [x.reshape(len(x), -1)]
    for k, (kernel, bias) in enumerate(layers):
        y = values[-1] @ kernel + bias
        values.append(np.maximum(y, 0.0) if k < len(layers) - 1 else y)
    return values


def distillation_gradient(layers: Layers, x: np.ndarray, target: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The gradient of mean (forward(x) - target)^2, by hand."""
    values = forward(layers, x)
    delta = 2.0 * (values[-1] - target) / target.size
    gradients = []
    for k in reversed(range(len(layers))):
        gradients.append((values[k].T @ delta, delta.sum(0)))
        delta = (delta @ layers[k][0].T) * (values[k] > 0.0)
    return gradients[::-1]


class AdamOracle:
    """Adam (Kingma and Ba, 2015) with its default constants."""

    def __init__(self, layers: Layers, learning_rate: float):
        self.learning_rate, self.steps = learning_rate, 0
        self.moments = [[(np.zeros_like(p), np.zeros_like(p)) for p in layer] for layer in layers]

    def step(self, layers: Layers, gradients: Layers) -> list[tuple[np.ndarray, np.ndarray]]:
        self.steps += 1
        learnt = []
        for k, (layer, gradient) in enumerate(zip(layers, gradients, strict=True)):
            entries = []
            for j, (p, g) in enumerate(zip(layer, gradient, strict=True)):
                m, v = self.moments[k][j]
                m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
                self.moments[k][j] = m, v
                m_hat, v_hat = m / (1 - 0.9**self.steps), v / (1 - 0.999**self.steps)
                entries.append(p - self.learning_rate * m_hat / (np.sqrt(v_hat) + 1e-8))
            learnt.append(tuple(entries))
        return learnt


def random_mdp(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Transition probabilities `[S, A, S]`, rewards `[S, A]`, and which states are terminal, `[S]`."""
    num_states, num_actions = 6, 3
    transitions = rng.dirichlet(np.full(num_states, 0.3), (num_states, num_actions))
    rewards = rng.normal(size=(num_states, num_actions))
    terminal = np.zeros(num_states, bool)
    terminal[rng.choice(num_states, int(rng.integers(1, 3)), replace=False)] = True
    return transitions, rewards, terminal


def greedy_policy(
    transitions: np.ndarray, rewards: np.ndarray, terminal: np.ndarray, gamma: float
) -> tuple[np.ndarray, float]:
    """Value iteration with rewards `[S, A, S]`: the best action of every state that is not terminal.

    Returns with it the smallest gap between the best action's value and the second best's.
    """
    expected = (transitions * rewards).sum(-1)
    values, q = np.zeros(len(terminal)), expected
    for _ in range(2000):
        q = expected + gamma * transitions @ np.where(terminal, 0.0, values)
        if np.abs(q.max(-1) - values).max() < 1e-12:
            break
        values = q.max(-1)
    ordered = np.sort(q[~terminal], axis=-1)
    return q[~terminal].argmax(-1), float((ordered[:, -1] - ordered[:, -2]).min())


def segments(ended: Any) -> dict[int, list[tuple[int, int]]]:
    """The whole episodes of each environment in flags `[T, N]`: inclusive `(first, last)` rows."""
    found = defaultdict(list)
    for i in range(ended.shape[1]):
        start = 0
        for t in np.flatnonzero(ended[:, i]):
            found[i].append((start, int(t)))
            start = int(t) + 1
    return found
