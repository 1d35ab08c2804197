"""Advantages by the definition: for every start, a sum over the steps that follow."""

import numpy as np


def gae_by_sums(rewards, values, next_values, terminated, truncated, gamma, lam, episodic):
    """A_t = sum_k (gamma lam)^k delta_{t+k}, cut after the first end at or after t when the stream is episodic."""
    num_steps, num_envs = rewards.shape
    advantages = np.zeros((num_steps, num_envs))
    for n in range(num_envs):
        for t in range(num_steps):
            weight, total = 1.0, 0.0
            for k in range(t, num_steps):
                bootstrap = next_values[k, n]
                if episodic and terminated[k, n]:
                    bootstrap = 0.0
                total += weight * (rewards[k, n] + gamma * bootstrap - values[k, n])
                if episodic and (terminated[k, n] or truncated[k, n]):
                    break
                weight *= gamma * lam
            advantages[t, n] = total
    return advantages
