"""The `jaxrew` command: one JSON line, and one sentence for bad input."""

import json

import pytest

from jaxrew import cli


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


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ("bench env CartPole-v9", "unknown environment 'CartPole-v9'; did you mean 'CartPole-v1'?"),
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
