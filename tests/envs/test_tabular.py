"""Tabular environments: what is stepped against the arrays, and the solvers against slow ones."""

import dataclasses
import functools
import re

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from envs.tabular import FACTORIES, MDP, Chain, Cliff, GridWorld, RandomMDP, RiverSwim, Tabular
from envs.vector import VecEnv
from tests.references.tabular_mdp import optimal_values, policy_values, visits

MAZE = """
S.#G
.C.X
S..."""

ENVS = [
    Chain(length=5, slip=0.2),
    Chain(length=4, goal_ends=True, obs="index"),
    RiverSwim(),
    RandomMDP(states=8, actions=3, branching=4, seed=1),
    RandomMDP(states=5, actions=2, branching=1),
    GridWorld(layout=MAZE, slip=0.3, step_reward=-0.1),
    GridWorld(size=4, walls=((1, 1), (2, 1))),
    Cliff(slip=0.1),
]


def ids(env):
    return f"{env.name}-{env.num_states}-{env.obs}"


everywhere = pytest.mark.parametrize("env", ENVS, ids=ids)


def a_policy(env, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(env.num_actions), env.num_states)


@functools.cache
def sampled(env, repeats=2000):
    """`Step`s `[S, A, repeats]` of every pair that can be acted on, from `step_many`, at time 0."""
    pairs = np.stack(np.meshgrid(range(env.num_states), range(env.num_actions), range(repeats), indexing="ij"))
    index, action = pairs[0].ravel().astype(np.int32), pairs[1].ravel().astype(np.int32)

    @jax.jit
    def step(key):
        state = jax.tree.map(lambda leaf: jnp.zeros(len(index), leaf.dtype), env.reset(key)[0])
        return env.step_many(key, state._replace(index=jnp.asarray(index)), jnp.asarray(action))[1]

    shape = (env.num_states, env.num_actions, repeats)
    return jax.tree.map(lambda leaf: np.asarray(leaf).reshape(*shape, *leaf.shape[1:]), step(jax.random.key(3)))


@everywhere
def test_sampled_transitions_have_the_frequencies_of_the_array(env):
    successors = sampled(env).facts["state"]
    counts = np.stack([(successors == t).sum(axis=-1) for t in range(env.num_states)], axis=-1)
    assert not counts[env.P == 0].any()
    expected = env.P * successors.shape[-1]
    chi_square = ((counts - expected) ** 2 / np.where(env.P > 0, expected, 1)).sum()
    freedom = (env.P > 0).sum() - env.num_states * env.num_actions
    assert chi_square <= stats.chi2.ppf(0.999, freedom) if freedom else chi_square == 0


@everywhere
def test_rewards_and_ends_are_those_of_the_arrays(env):
    step = sampled(env)
    states, actions = np.arange(env.num_states)[:, None, None], np.arange(env.num_actions)[None, :, None]
    successors = step.facts["state"]
    np.testing.assert_array_equal(step.reward, env.R[states, actions, successors].astype(np.float32))
    np.testing.assert_array_equal(step.terminated, env.mdp.terminal[successors])
    spread = (env.P * env.R**2).sum(-1) - (env.P * env.R).sum(-1) ** 2
    error = np.abs(step.reward.mean(-1) - (env.P * env.R).sum(-1))
    assert (error <= 5 * np.sqrt(np.maximum(spread, 0) / step.reward.shape[-1]) + 1e-5 * np.abs(env.R).max()).all()


@everywhere
def test_first_states_have_the_start_distribution(env):
    states, obs = jax.jit(env.reset_many)(jax.random.split(jax.random.key(0), 4000))
    counts = np.bincount(states.index, minlength=env.num_states)
    possible = env.mdp.start > 0
    assert not counts[~possible].any()
    if possible.sum() > 1:
        assert stats.chisquare(counts[possible], 4000 * env.mdp.start[possible]).pvalue > 0.001
    assert not np.asarray(states.time).any()
    np.testing.assert_array_equal(obs, np.eye(env.num_states)[states.index] if env.obs == "one-hot" else states.index)
    np.testing.assert_array_equal(env.spec.to_features(obs), np.eye(env.num_states, dtype=np.float32)[states.index])


@everywhere
def test_value_iteration_agrees_with_linear_programming(env):
    scale = np.abs(env.R).max()
    for gamma in (0.0, 0.9, 0.99):
        values, action_values = env.value_iteration(gamma, tol=1e-9 * scale)
        expected = optimal_values(env.P, env.R / scale, env.mdp.terminal, gamma) * scale
        np.testing.assert_allclose(values, expected, atol=1e-6 * scale, rtol=1e-6)
        pairs = [(s, a) for s in range(env.num_states) for a in range(env.num_actions)]
        slow = np.reshape([sum(env.P[s, a] * (env.R[s, a] + gamma * expected)) for s, a in pairs], action_values.shape)
        np.testing.assert_allclose(action_values, slow, atol=1e-6 * scale, rtol=1e-6)
        optimal = env.policy_evaluation(env.optimal_policy(gamma), gamma)
        np.testing.assert_allclose(optimal, expected, atol=1e-5 * scale, rtol=1e-5)


@everywhere
def test_policy_evaluation_and_occupancy_agree_with_slow_sweeps(env):
    policy, gamma = a_policy(env), 0.8
    expected = policy_values(env.P, env.R, env.mdp.terminal, policy, gamma, sweeps=120)
    np.testing.assert_allclose(env.policy_evaluation(policy, gamma), expected, atol=1e-8 * np.abs(env.R).max())
    occupancy = env.occupancy(policy, gamma)
    np.testing.assert_allclose(occupancy, visits(env.P, env.mdp.start, policy, gamma, steps=120), atol=1e-9)
    mean_rewards = (policy[:, :, None] * env.P * env.R).sum((1, 2))
    np.testing.assert_allclose(occupancy @ mean_rewards / (1 - gamma), env.mdp.start @ expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("env", [GridWorld(layout=MAZE, slip=0.3, step_reward=-0.1), RiverSwim()], ids=ids)
def test_played_returns_have_the_mean_that_policy_evaluation_says(env):
    policy, gamma, num_envs = a_policy(env), 0.9, 2000
    vec_env = VecEnv(dataclasses.replace(env, max_steps=200), num_envs)

    @jax.jit
    def play(key):
        def body(carry, key):
            state, alive, discount = carry
            act_key, step_key = jax.random.split(key)
            action = jax.random.categorical(act_key, jnp.log(jnp.asarray(policy))[state.envs.index])
            state, _, step = vec_env.step(step_key, state, action)
            carry = state, alive & ~step.terminated, discount * gamma
            return carry, alive * discount * step.reward

        first = vec_env.init(key)[0], jnp.ones(num_envs, bool), jnp.float32(1)
        return jax.lax.scan(body, first, jax.random.split(key, 150))[1].sum(axis=0)

    returns = np.asarray(play(jax.random.key(0)))
    expected = env.mdp.start @ env.policy_evaluation(policy, gamma)
    error = returns.std() / np.sqrt(num_envs)
    assert abs(returns.mean() - expected) < 3.3 * error
    assert error < 0.2 * np.ptp(returns)


@everywhere
def test_shapes_and_dtypes_are_what_the_spec_says_and_never_change(env):
    spec, key = env.spec, jax.random.key(0)
    for reset, step, facts, keys, batch in (
        (env.reset, env.step, env.facts, key, ()),
        (env.reset_many, env.step_many, env.facts_many, jax.random.split(key, 3), (3,)),
    ):
        state, obs = jax.eval_shape(reset, keys)
        new, outcome = jax.eval_shape(step, key, state, jax.ShapeDtypeStruct(batch, jnp.int32))
        chex.assert_trees_all_equal_shapes_and_dtypes((new, outcome.obs), (state, obs))
        assert not any(leaf.weak_type for leaf in jax.tree.leaves((state, new, obs, outcome)))
        assert (obs.shape, obs.dtype) == ((*batch, *spec.obs_shape), spec.obs_dtype)
        assert (outcome.reward.dtype, outcome.terminated.dtype, outcome.truncated.dtype) == (jnp.float32, bool, bool)
        for shown in (outcome.facts, jax.eval_shape(facts, state)):
            assert {fact.name: ((*batch, *fact.shape), fact.dtype) for fact in spec.facts} == {
                name: (value.shape, value.dtype) for name, value in shown.items()
            }


def test_truncation_is_at_the_limit_alone_and_ends_are_terminations():
    vec_env = VecEnv(Chain(length=4, goal_ends=True, max_steps=3), 2)
    state, obs = vec_env.init(jax.random.key(0))
    flags, ends = [], []
    for t in range(6):
        state, obs, step = vec_env.step(jax.random.key(t), state, jnp.array([1, 0]))
        flags.append((step.terminated, step.truncated))
        ends.append(step.facts["state"].tolist())
    terminated, truncated = np.swapaxes(flags, 0, 1)
    np.testing.assert_array_equal(terminated[:, 0], [False, True, False, True, False, True])
    np.testing.assert_array_equal(truncated[:, 1], [False, False, True, False, False, True])
    assert not terminated[:, 1].any()
    assert not truncated[:, 0].any()
    assert ends == [[2, 0], [3, 0], [2, 0], [3, 0], [2, 0], [3, 0]]
    np.testing.assert_array_equal(obs, np.eye(4)[[1, 1]])


@pytest.mark.parametrize("name", FACTORIES)
def test_defaults_have_a_name_a_limit_and_no_randomness_where_the_arrays_have_none(name):
    env = FACTORIES[name]()
    assert (env.spec.name, env.spec.max_steps) == (name, env.usual_max_steps)
    state, _ = env.reset(jax.random.key(0))
    reward = jax.jit(lambda key: env.step(key, state, jnp.int32(0))[1].reward)
    program = reward.lower(jax.random.key(0)).compile().as_text() or ""
    deterministic = ((env.P == 0) | (env.P == 1)).all()
    assert ("shift-left" not in program) == deterministic


def test_the_world_of_russell_and_norvig_has_the_utilities_of_the_textbook():
    # Artificial Intelligence: A Modern Approach, figure 17.3.
    env = GridWorld(layout="russell-norvig", slip=0.2, step_reward=-0.04)
    expected = [[0.812, 0.868, 0.918, 0.0], [0.762, np.nan, 0.660, 0.0], [0.705, 0.655, 0.611, 0.388]]
    np.testing.assert_allclose(env.as_grid(env.value_iteration(1.0)[0]), expected, atol=6e-4)
    up, right, left = 0, 1, 3
    policy = env.as_grid(env.optimal_policy(1.0))
    assert policy[2].tolist() == [up, left, left, left]
    assert policy[0, :3].tolist() == [right, right, right]
    assert policy[1, 0] == policy[1, 2] == up


def test_known_shortest_ways():
    maze = GridWorld(layout="dyna-maze")
    np.testing.assert_allclose(maze.mdp.start @ maze.value_iteration(0.95)[0], 0.95**13)
    cliff = Cliff()
    np.testing.assert_allclose(cliff.mdp.start @ cliff.value_iteration(1.0)[0], -13)
    assert cliff.num_states == 38
    square = GridWorld(size=5)
    np.testing.assert_allclose(square.mdp.start @ square.value_iteration(0.9)[0], 0.9**7)
    assert square.optimal_actions(0.9)[0].tolist() == [False, True, True, False]


def test_falling_pays_and_leads_back_and_mixes_with_plain_moves():
    cliff = Cliff()
    start, above = cliff.mdp.start.argmax(), 25
    assert cliff.cells[start].tolist() == [3, 0]
    assert cliff.cells[above].tolist() == [2, 1]
    assert (cliff.P[above, 2, start], cliff.R[above, 2, start]) == (1.0, -101.0)
    # Right of the start is the cliff; half of the slips go down, into the border, and stay there for -1.
    slippery = Cliff(slip=0.2)
    np.testing.assert_allclose(slippery.P[start, 1, start], 0.9)
    np.testing.assert_allclose(slippery.R[start, 1, start], (0.8 * -101 + 0.1 * -1) / 0.9)


def test_four_rooms_are_the_rooms_of_the_library_environment():
    from gymnax.environments.misc.rooms import four_rooms_map

    rows = [[character != "x" for character in line] for line in four_rooms_map.strip().split("\n")]
    env = GridWorld()
    np.testing.assert_array_equal(env.as_grid(np.ones(env.num_states)) == 1, rows)
    assert env.cells[env.mdp.start.argmax()].tolist() == [4, 1]
    assert env.cells[env.mdp.terminal.argmax()].tolist() == [8, 9]


def test_river_and_chain_have_their_papers_numbers():
    river = RiverSwim()
    np.testing.assert_allclose(river.P[2, 1, 1:4], [0.1, 0.6, 0.3])
    np.testing.assert_allclose(river.P[0, 1, :2], [0.7, 0.3])
    np.testing.assert_allclose(river.P[5, 1, 4:], [0.7, 0.3])
    assert (river.P[3, 0, 2], river.R[0, 0, 0], river.R[5, 1, 5], np.count_nonzero(river.R)) == (1.0, 5.0, 10_000.0, 2)
    chain = Chain(length=20)
    assert chain.mdp.start[1] == 1
    assert chain.spec.max_steps == 29
    assert (chain.optimal_policy(0.99) == 1).all()
    assert chain.optimal_policy(0.5)[0] == 0


def test_a_garnet_has_its_branching_and_belongs_to_its_seed():
    env = RandomMDP(states=30, actions=5, branching=7)
    assert ((env.P > 0).sum(axis=-1) == 7).all()
    assert len(np.unique(env.P[env.P > 0])) == 30 * 5 * 7
    np.testing.assert_array_equal(env.P, RandomMDP(states=30, actions=5, branching=7).P)
    assert (env.P != RandomMDP(states=30, actions=5, branching=7, seed=1).P).any()
    assert abs(env.R[env.P > 0].std() - 1) < 0.1
    first = np.sort(env.P, axis=-1)[..., -7:].mean(axis=(0, 1))  # gaps of 6 uniform points, sorted
    expected = [sum(1 / (7 - i) for i in range(k + 1)) / 7 for k in range(7)]
    np.testing.assert_allclose(first, expected, rtol=0.15)


def test_equal_settings_are_equal_and_arrays_cannot_be_written():
    assert GridWorld(layout=MAZE) == GridWorld(layout=MAZE)
    assert hash(Chain()) == hash(Chain())
    assert Chain(obs="index").spec == Chain(obs="index").spec
    with pytest.raises(ValueError, match="read-only"):
        Chain().P[0] = 0


@dataclasses.dataclass(frozen=True)
class Broken(Tabular):
    mistake: str = ""

    @property
    def usual_max_steps(self):
        return 5

    def build(self):
        mdp = Chain(length=3, goal_ends=True).build()
        if self.mistake == "shape":
            return mdp._replace(R=mdp.R[:2])
        if self.mistake == "leaves":
            mdp.P[2] = mdp.P[0]
        elif self.mistake == "start":
            return mdp._replace(start=np.array([0.0, 0.5, 0.5]))
        else:
            mdp.P[0, 0, 0] = 0.5
        return MDP(*mdp)


SHAPES = "P and R [S, A, S], terminal and start [S], not P (3, 2, 3), R (2, 2, 3), terminal (3,), start (3,)"


@pytest.mark.parametrize(
    ("factory", "options", "message"),
    [
        (Chain, {"length": 2}, "length is 2; it must be at least 3"),
        (Chain, {"slip": 1.5}, "slip is 1.5; it is a probability, from 0 to 1"),
        (Chain, {"obs": "onehot"}, "unknown tabular observation 'onehot'; did you mean 'one-hot'?"),
        (Chain, {"max_steps": 0}, "max_steps is 0; an episode has at least 1 step"),
        (RandomMDP, {"branching": 30}, "branching is 30, but it must be from 1 to 20; try 20"),
        (GridWorld, {"layout": "four-room"}, "unknown layout 'four-room'; did you mean 'four-rooms'?"),
        (GridWorld, {"layout": "S.\n?G"}, "the layout has '?' in it; cells are '#', '.' or space, 'S', 'G', 'X', 'C'"),
        (GridWorld, {"layout": "..\n.G"}, "the layout has no start; mark at least one cell with 'S'"),
        (
            GridWorld,
            {"layout": "S.G", "size": 3},
            "size is 3, but the layout has a size of its own; give one of the two",
        ),
        (
            GridWorld,
            {"walls": ((0, 1),)},
            "walls = ((0, 1),) belong to a square; give its size, or draw them in a layout",
        ),
        (GridWorld, {"size": 3, "walls": ((3, 1),)}, "the wall (3, 1) is outside the square; its last row is 2"),
        (Broken, {}, "the rows of P must be probabilities, but their sums go from 0.5 to 1.0"),
        (Broken, {"mistake": "shape"}, f"an MDP has {SHAPES}"),
        (Broken, {"mistake": "leaves"}, "an episode that has ended must stay so, unpaid, but P or R leaves its end"),
        (Broken, {"mistake": "start"}, "an episode cannot start at its end, but start has terminal states [1 2]"),
    ],
)
def test_mistakes_are_answered_in_one_sentence(factory, options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        factory(**options)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda chain: chain.value_iteration(1.1), "gamma is 1.1; it must lie in [0, 1], like 0.99"),
        (lambda chain: chain.value_iteration(1.0), "the values for gamma = 1.0 do not settle, as an episode may never"),
        (lambda chain: chain.policy_evaluation(np.zeros(3, int), 1.0), "the policy has no values for gamma = 1.0, as"),
        (lambda chain: chain.occupancy(np.zeros(3, int), 1.0), "gamma is 1.0; a discounted occupancy needs one in [0,"),
        (
            lambda chain: chain.policy_evaluation(np.ones((3, 2)), 0.9),
            "a policy of tabular/chain is probabilities (3, 2",
        ),
        (lambda chain: chain.policy_evaluation(np.full(3, 2), 0.9), "a policy of tabular/chain is probabilities (3, 2"),
    ],
)
def test_mistaken_questions_are_answered_in_one_sentence(ask, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        ask(Chain(length=3))
