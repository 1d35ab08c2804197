"""The `jaxrew` command: one JSON line, a listing, and one sentence for bad input."""

import json

import pytest

import envs
from jaxrew import cli
from jaxrew.envs_table import matching


@pytest.fixture(autouse=True)
def _devices_are_chosen(monkeypatch):
    monkeypatch.setattr("jaxrew.use_every_core", lambda: None)


def test_bench_prints_one_json_line(capsys):
    cli.main(["bench", "env", "CartPole-v1", "--num-envs", "4", "--steps", "50"])
    line = json.loads(capsys.readouterr().out)
    assert line["frames"] == 200
    assert line["steps_per_second_best"] >= line["steps_per_second_median"] > 0
    cli.main(
        [
            "bench",
            "train",
            "--num-envs",
            "4",
            "--num-steps",
            "8",
            "--num-minibatches",
            "1",
            "--steps",
            "64",
            "--seeds",
            "2",
        ]
    )
    line = json.loads(capsys.readouterr().out)
    assert line["frames"] == 2 * 64
    assert line["updates"] == 2


def test_one_environment_is_listed_with_its_facts(capsys):
    cli.main(["envs", "minigrid-doorkey-8x8-v0"])
    text = capsys.readouterr().out
    row = next(line.split() for line in text.splitlines() if "MiniGrid-DoorKey-8x8-v0" in line)
    spec = envs.make("MiniGrid-DoorKey-8x8-v0").spec
    assert row == ["MiniGrid-DoorKey-8x8-v0", "uint8[7,", "7]", "7", "640", str(len(spec.facts))]
    for fact in spec.facts:
        line = next(line for line in text.splitlines() if line.split()[:1] == [fact.name])
        assert fact.meaning in line
        assert fact.unit in line
        assert f"{fact.low:g} to {fact.high:g}" in line


def test_several_are_listed_without_facts_unless_asked(capsys):
    cli.main(["envs", "*DoorKey-?x?-v0"])
    text = capsys.readouterr().out
    assert [line.split()[0] for line in text.splitlines() if "uint8" in line] == [
        f"MiniGrid-DoorKey-{size}x{size}-v0" for size in (5, 6, 8)
    ]
    assert "door_state" not in text
    cli.main(["envs", "*DoorKey-?x?-v0", "--facts"])
    assert capsys.readouterr().out.count("door_state") == 3


def test_slow_environments_are_built_only_where_the_pattern_asks_for_them(capsys, monkeypatch):
    built = []

    def make(name):
        built.append(name)
        return make_environment("MiniGrid-Empty-5x5-v0")

    make_environment = envs.make
    monkeypatch.setattr(envs, "ids", lambda: ["Empty-ant", "brax/ant", "brax/humanoid"])
    monkeypatch.setattr(envs, "make", make)
    cli.main(["envs"])
    assert built == ["Empty-ant"]
    assert "brax/ant, brax/humanoid" in capsys.readouterr().out
    cli.main(["envs", "brax"])
    assert built[1:] == ["brax/ant", "brax/humanoid"]
    cli.main(["envs", "humanoid"])
    assert built[3:] == ["brax/humanoid"]


def test_patterns_are_parts_or_globs():
    ids = ["CartPole-v1", "MiniGrid-Empty-5x5-v0", "MiniGrid-Empty-5x5-v0-b", "MountainCar-v0"]
    assert matching("", ids) == ids
    assert matching("car", ids) == [ids[0], ids[3]]
    assert matching("*car*v0", ids) == [ids[3]]
    assert matching("MiniGrid-Empty-5x5-v0", ids) == [ids[1]]


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ("bench env CartPole-v9", "unknown environment 'CartPole-v9'; did you mean 'CartPole-v1'?"),
        ("envs CartPole-v9", "unknown environment 'CartPole-v9'; did you mean 'CartPole-v1'?"),
        ("bench env CartPole-v1 --steps 0", "steps must be at least 1, got 0"),
        ("bench train --seeds 0", "there must be at least 1 seed, got 0"),
        ("bench train --reward curiosity", "unknown reward 'curiosity'"),
    ],
)
def test_bad_input_is_one_sentence(args, sentence, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(args.split())
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert sentence in error
