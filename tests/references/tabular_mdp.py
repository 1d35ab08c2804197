"""Slow oracles of finite MDPs: one state, action and successor at a time, from the arrays alone."""

import numpy as np
from scipy.optimize import linprog


def optimal_values(P, R, terminal, gamma):
    """V* by linear programming: the least V with V(s) >= r(s, a) + gamma P V for every action; 0 where terminal."""
    num_states, num_actions, _ = P.shape
    rows, bounds = [], []
    for s in range(num_states):
        for a in range(num_actions):
            if not terminal[s]:
                rows.append(gamma * P[s, a] - np.eye(num_states)[s])
                bounds.append(-sum(P[s, a, t] * R[s, a, t] for t in range(num_states)))
    fixed = [(0, 0) if end else (None, None) for end in terminal]
    return linprog(np.ones(num_states), np.array(rows), np.array(bounds), bounds=fixed, method="highs").x


def policy_values(P, R, terminal, policy, gamma, sweeps=3000):
    """V of action probabilities `[S, A]` by sweeping the Bellman equation."""
    num_states, num_actions, _ = P.shape
    values = [0.0] * num_states
    for _ in range(sweeps):
        values = [
            0.0
            if terminal[s]
            else sum(
                policy[s, a] * P[s, a, t] * (R[s, a, t] + gamma * values[t])
                for a in range(num_actions)
                for t in np.flatnonzero(P[s, a])
            )
            for s in range(num_states)
        ]
    return np.array(values)


def visits(P, start, policy, gamma, steps=3000):
    """(1 - gamma) sum of gamma^t Pr(s_t = s), by carrying the distribution forward."""
    where, total = np.array(start), np.zeros(len(start))
    for t in range(steps):
        total += (1 - gamma) * gamma**t * where
        steps_from = [where[s] * policy[s, a] * P[s, a] for s in range(len(start)) for a in range(P.shape[1])]
        where = np.sum(steps_from, axis=0)
    return total
