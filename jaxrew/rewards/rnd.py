"""Random network distillation (Burda, Edwards, Storkey and Klimov, 2018)."""

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array, lax
from jax.flatten_util import ravel_pytree

from jaxrew.networks import MLP, map_rows, orthogonal_dense
from jaxrew.rewards.base import Bonus, Context, Metrics, Rewards, feature_shape
from jaxrew.training.normalise import (
    Moments,
    ReturnFilter,
    filter_returns,
    init_moments,
    init_return_filter,
    update_moments,
    whiten,
)
from jaxrew.types import EnvSpec, PyTree, Transition, static


class Embedding(nn.Module):
    """An encoder, dense ReLU layers of the given widths, and a linear layer to `size`: features to `[..., size]`."""

    encoder: nn.Module
    hidden: tuple[int, ...]
    size: int

    @nn.compact
    def __call__(self, features: Array) -> Array:
        x = self.encoder(features)
        for width in self.hidden:
            x = nn.relu(orthogonal_dense(width, scale=2**0.5)(x))
        return orthogonal_dense(self.size, scale=2**0.5)(x)


class RNDState(NamedTuple):
    """Parameters of both networks, Adam's state, the moments of the features and the filter of the reward."""

    target: PyTree
    predictor: PyTree
    opt_state: optax.OptState
    features: Moments
    returns: ReturnFilter


class RND(Bonus, kw_only=True):
    """r = mean_d (target(x) - predictor(x))^2 / std, x the whitened features of the true successor.

    The target stays as it was drawn; the predictor learns to match it, so what was seen often is paid little. As in the
    paper: features are whitened by running moments, clipped to +-5, warmed by random play; a rollout is scored before
    its features enter the moments; std is that of the discounted sum of rewards (`filter_returns`), this rollout
    included; the stream is non-episodic, so that finding something new is worth the end of an episode.

    `update` makes one pass of Adam over a random share of the rollout, in a few minibatches; the authors' code trains
    it in PPO's four epochs. Default widths suit 64-wide policies and cost half an update: a predictor one layer deeper
    than the target, with 32 outputs; theirs is two deeper, with 512, behind leaky ReLU; random play takes 128 steps,
    theirs 6,400. Metrics: `loss`, the mean squared error on what was trained on, and `std`.

    Attributes:
      learning_rate: of Adam.
      clip: bound of whitened features.
      encoder: a linen module from features to `[..., D]`, used by both networks; by default one 64-wide ReLU layer.
      hidden: widths of the predictor's extra ReLU layers.
      embedding: width of the networks' linear output.
      keep: the share of the rollout that the predictor trains on, by default min(1, 32 / num_envs).
      minibatches: Adam steps per update.
      warm_steps: steps of random play per environment before training.
    """

    learning_rate: float = 1e-4
    clip: float = 5.0
    encoder: nn.Module | None = static(None)
    hidden: tuple[int, ...] = static((64,))
    embedding: int = static(32)
    keep: float | None = static(None)
    minibatches: int = static(2)
    warm_steps: int = static(128)

    def validate(self, spec: EnvSpec, num_envs: int) -> None:
        """Raises ValueError when a setting is out of its range."""
        super().validate(spec, num_envs)
        if self.keep is not None and not 0.0 < self.keep <= 1.0:
            raise ValueError(f"keep = {self.keep} must be a share above 0 and up to 1; try {min(1.0, 32 / num_envs)}")
        if self.minibatches < 1:
            raise ValueError(f"minibatches = {self.minibatches} must be at least 1; try 2")
        if self.warm_steps < 0:
            raise ValueError(f"warm_steps = {self.warm_steps} must be 0 or more; try 128")

    def init(self, key: Array, spec: EnvSpec, num_envs: int) -> RNDState:
        target_key, predictor_key = jax.random.split(key)
        shape = feature_shape(spec)
        target, predictor = self._networks(spec)
        params = predictor.init(predictor_key, jnp.zeros(shape))
        return RNDState(
            target=target.init(target_key, jnp.zeros(shape)),
            predictor=params,
            opt_state=optax.adam(self.learning_rate).init(ravel_pytree(params)[0]),
            features=init_moments(shape),
            returns=init_return_filter(num_envs),
        )

    def warm(self, state: RNDState, batch: Transition, ctx: Context) -> RNDState:
        state = state._replace(features=update_moments(state.features, ctx.spec.to_features(batch.next_obs)))
        errors = self._errors(state, batch, ctx.spec)
        return state._replace(returns=filter_returns(state.returns, errors, self.discount(ctx)))

    def reward(self, state: RNDState, batch: Transition, ctx: Context) -> tuple[Rewards, RNDState]:
        errors = self._errors(state, batch, ctx.spec)
        returns = filter_returns(state.returns, errors, self.discount(ctx))
        features = update_moments(state.features, ctx.spec.to_features(batch.next_obs))
        state = state._replace(features=features, returns=returns)
        return {self.stream_name: errors * returns.scale}, state

    def rescore(self, state: RNDState, batch: Transition, ctx: Context) -> Rewards:
        errors = self._errors(state, batch, ctx.spec)
        return {self.stream_name: errors * state.returns.scale}

    def update(self, state: RNDState, batch: Transition, ctx: Context) -> tuple[RNDState, Metrics]:
        target, predictor = self._networks(ctx.spec)
        # Whole observations are gathered as stored and only the kept ones whitened: floats are four times the bytes.
        kept = batch.next_obs.reshape(-1, *ctx.spec.obs_shape)[self._kept_rows(batch, ctx.key)]
        inputs = lax.optimization_barrier(whiten(state.features, ctx.spec.to_features(kept), self.clip))
        outputs = embed(target, state.target, inputs)
        optimizer = optax.adam(self.learning_rate)
        vector, unravel = ravel_pytree(state.predictor)  # one vector takes Adam a few kernels, not a few per layer

        def step(carry, minibatch):
            vector, opt_state = carry
            loss, grads = jax.value_and_grad(lambda v: distillation_loss(unravel(v), predictor, *minibatch))(vector)
            updates, opt_state = optimizer.update(grads, opt_state)
            return (vector + updates, opt_state), loss

        (vector, opt_state), losses = jax.lax.scan(step, (vector, state.opt_state), (inputs, outputs))
        metrics = {f"reward/{self.label}/loss": losses.mean(), f"reward/{self.label}/std": 1.0 / state.returns.scale}
        return state._replace(predictor=unravel(vector), opt_state=opt_state), metrics

    def _errors(self, state: RNDState, batch: Transition, spec: EnvSpec) -> Array:
        target, predictor = self._networks(spec)

        def errors(obs: Array) -> Array:
            # Here and above the barrier keeps XLA from whitening once for each network.
            inputs = lax.optimization_barrier(whiten(state.features, spec.to_features(obs), self.clip))
            error = embed(target, state.target, inputs) - embed(predictor, state.predictor, inputs)
            return jnp.square(error).mean(axis=-1)

        return map_rows(errors, batch.next_obs, row_ndim=len(spec.obs_shape))

    def _networks(self, spec: EnvSpec) -> tuple[Embedding, Embedding]:
        encoder = self.encoder or MLP((64,), nn.relu, feature_ndim=len(feature_shape(spec)))
        return Embedding(encoder, (), self.embedding), Embedding(encoder, self.hidden, self.embedding)

    def _kept_rows(self, batch: Transition, key: Array) -> Array:
        """Rows of the flattened batch, none twice, `[minibatches, rows]`.

        The batch is cut into as many even strata as rows are kept and one row drawn from each, which needs no sort. Of
        every `minibatches` neighbours, each minibatch then gets one, at random.
        """
        total, num_envs = batch.reward.size, batch.reward.shape[-1]
        keep = min(1.0, 32 / num_envs) if self.keep is None else self.keep
        kept = max(1, round(keep * total))
        minibatches = min(self.minibatches, kept)
        kept -= kept % minibatches
        row_key, deal_key = jax.random.split(key)
        edges = np.arange(kept + 1) * total // kept
        rows = edges[:-1] + jnp.floor(jax.random.uniform(row_key, (kept,)) * np.diff(edges)).astype(jnp.int32)
        first = jax.random.randint(deal_key, (kept // minibatches, 1), 0, minibatches)
        deal = (first + jnp.arange(minibatches)) % minibatches
        return jnp.take_along_axis(rows.reshape(-1, minibatches), deal, axis=1).T


def embed(network: nn.Module, params: PyTree, inputs: Array) -> Array:
    """Embeddings `[..., size]` of whitened features."""
    return jnp.asarray(network.apply(params, inputs))


def distillation_loss(params: PyTree, predictor: nn.Module, inputs: Array, outputs: Array) -> Array:
    """The mean squared error of the predictor, over a minibatch and the entries of an embedding."""
    return jnp.square(embed(predictor, params, inputs) - outputs).mean()
