"""Clip, Normalize, Chain and Anneal."""

import numpy as np
import pytest

from jaxrew.rewards import RND, Anneal, Chain, Clip, Counts, Normalize, Potential, RewardModule, Sum
from jaxrew.types import Stream
from tests.references.rewards_experience import SPEC, flat, learnt, rescored, rollouts, scored, started, warmed
from tests.references.rewards_oracles import ReturnStdOracle


class Heat(RewardModule):
    """Pays the heat of s' into a stream of its own and that of s into the task's."""

    @property
    def pays(self):
        return ("heat", "task")

    def streams(self):
        return (Stream(0.8, 2.0, "heat"),)

    def reward(self, state, batch, ctx):
        return {"heat": batch.next_facts["heat"], "task": batch.facts["heat"]}, state

    def rescore(self, state, batch, ctx):
        return self.reward(state, batch, ctx)[0]


def test_return_std_equals_a_slow_loop_and_each_stream_has_its_own():
    module = Chain(Heat(), Normalize("return_std"))
    state = started(module)
    heat, task = ReturnStdOracle(0.8, 5), ReturnStdOracle(0.95, 5)
    for batch in rollouts(0, num_rollouts=6):
        rewards, state, _ = scored(module, state, batch)
        stds = {"heat": heat.std(batch.next_facts["heat"]), "task": task.std(batch.facts["heat"])}
        np.testing.assert_allclose(rewards["heat"], batch.next_facts["heat"] / stds["heat"], rtol=1e-4)
        np.testing.assert_allclose(rewards["task"], batch.facts["heat"] / stds["task"], rtol=1e-4)
        metrics = learnt(module, state, batch)[1]
        assert metrics == {f"reward/heat/std/{name}": pytest.approx(std, rel=1e-4) for name, std in stds.items()}


def test_reward_std_is_that_of_all_rewards_so_far():
    module = Chain(Counts(), Normalize("reward_std"))
    plain, state = Counts(), started(module)
    plain_state, seen = started(plain), []
    for batch in rollouts(0):
        raw, plain_state, _ = scored(plain, plain_state, batch)
        rewards, state, _ = scored(module, state, batch)
        seen.extend(np.ravel(raw["counts"]))
        np.testing.assert_allclose(rewards["counts"], raw["counts"] / np.std(seen), rtol=1e-4)
        assert learnt(module, state, batch)[1]["reward/counts/std"] == pytest.approx(np.std(seen), rel=1e-4)


def test_transforms_act_in_the_order_given():
    batch = next(rollouts(0))
    for transforms in ((Clip(-0.5, 1.0), Normalize("reward_std")), (Normalize("reward_std"), Clip(-0.5, 1.0))):
        module = Chain(Heat(), *transforms)
        rewards, state, metrics = scored(module, started(module), batch)
        expected = batch.next_facts["heat"]
        for transform in transforms:
            expected = np.clip(expected, -0.5, 1.0) if isinstance(transform, Clip) else expected / expected.std()
        np.testing.assert_allclose(rewards["heat"], expected, rtol=1e-5)
        np.testing.assert_allclose(rescored(module, state, batch)["heat"], expected, rtol=1e-5)
        raw = batch.next_facts["heat"].mean() + batch.facts["heat"].mean()
        assert metrics["reward/heat/raw"] == pytest.approx(raw, abs=1e-6)
        scaled = 2.0 * expected.mean() + float(rewards["task"].mean())
        assert metrics["reward/heat/scaled"] == pytest.approx(scaled, abs=1e-5)


def test_a_chain_around_a_sum_transforms_the_sum_and_shows_its_parts():
    module = Chain(Sum(Counts(stream="task"), Counts(stream="task", power=1.0)), Clip(0.0, 0.7))
    assert module.labels == ("counts", "counts_2", "counts+counts_2")
    batch = next(rollouts(0))
    rewards, state, metrics = scored(module, started(module), batch)
    raw, _, _ = scored(module.module, started(module.module), batch)
    assert raw["task"].max() > 0.7
    np.testing.assert_allclose(rewards["task"], np.minimum(raw["task"], 0.7), rtol=1e-6)
    assert metrics["reward/counts+counts_2/raw"] == pytest.approx(raw["task"].mean())
    assert metrics["reward/counts+counts_2/share"] == 1.0
    assert metrics["reward/counts/raw"] > metrics["reward/counts_2/raw"] > 0.0
    assert metrics["reward/counts/scaled"] == metrics["reward/counts/share"] == 0.0
    assert set(learnt(module, state, batch)[1]) == {"reward/counts/overflow", "reward/counts_2/overflow"}


def test_normalize_is_warmed_exactly_when_the_module_is():
    batch = next(rollouts(0))
    for module, count in ((Chain(RND(hidden=(8,)), Normalize()), 120), (Chain(Counts(), Normalize()), 0)):
        state = started(module)
        state = warmed(module, state, batch)
        (transform,) = state.transforms[module.pays[0]]
        assert transform.moments.count == count
        assert module.warm_steps == (128 if count else 0)


def test_anneal_weighs_by_the_frame_of_each_step():
    module = Anneal(Heat(), 2.0, -1.0, over=0.5)
    state, step = started(module), 240
    batch = next(rollouts(0, num_steps=80))
    rewards, _, metrics = scored(module, state, batch, step)
    weight = np.array([2.0 - 3.0 * min((240 + 5 * t) / 500, 1.0) for t in range(80)])
    np.testing.assert_allclose(rewards["heat"], weight[:, None] * batch.next_facts["heat"], rtol=1e-5, atol=1e-6)
    assert metrics["reward/heat/raw"] != metrics["reward/heat/scaled"]
    replayed = rescored(module, state, flat(batch), step)["heat"]
    np.testing.assert_allclose(replayed, weight[0] * batch.next_facts["heat"].ravel(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (Chain(Potential(lambda facts: facts["heat"]), Clip(-1.0, 1.0)), "Clip around 'potential' breaks"),
        (Chain(0.5 * Potential(lambda facts: facts["heat"]), Normalize()), "Normalize around 'potential' breaks"),
        (Chain(Sum(Counts(), Anneal(Potential(lambda f: f["heat"]))), Clip(0.0, 1.0)), "around 'counts\\+potential'"),
        (Chain(Counts(), Normalize("std")), "unknown kind of Normalize 'std'; did you mean 'reward_std'?"),
        (Chain(Counts(), Clip(1.0, -1.0)), "low = 1.0 and high = -1.0; swap them"),
        (Chain(Counts(facts=("cel",)), Clip(-1.0, 1.0)), "did you mean 'cell'?"),
        (Anneal(Counts(), over=0.0), "over = 0.0 must be a fraction"),
        (Anneal(Counts(facts=("cel",))), "did you mean 'cell'?"),
    ],
)
def test_errors(module, message):
    with pytest.raises(ValueError, match=message):
        module.validate(SPEC, 5)
