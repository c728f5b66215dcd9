"""Every number a run can be given, and what is said about wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders import hp, nodes, play, spot
from gfs import InputError, Parameters
from gfs.assembly import parameters, quotas
from gfs.assembly.parameters import CHOICES, QUOTAS, TAKEN_OUT, parse_settings
from gfs.quota.inventory import AGGREGATES


def test_the_defaults_are_those_of_spec_2_and_4() -> None:
    usual = Parameters()
    assert (usual.alpha, usual.beta, usual.gamma, usual.m) == (0.5, 0.5, 0.8, 3.0)
    assert (usual.grace_period, usual.restart_overhead, usual.restart_overhead_large) == (30, 40, 60)
    assert (usual.guarantee_hours, usual.checkpoint_interval, usual.tick) == (1, 3600, 300)
    assert usual.checkpoint_on_grace is False


def test_texts_are_read_as_the_command_line_gives_them() -> None:
    changed = Parameters().changed({"m": "5", "checkpoint_on_grace": "true", "quota": "fixed"})
    assert (changed.m, changed.checkpoint_on_grace, changed.quota) == (5.0, True, "fixed")


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"gama": 1}, "unknown parameter 'gama'; did you mean gamma"),
        ({"m": "many"}, "m = 'many': must be a number"),
        ({"m": "nan"}, "must be a number"),
        ({"gamma": 2}, "gamma = 2: must be between 0 and 1"),
        ({"quota_share": -0.1}, "must be between 0 and 1"),
        ({"grace_period": -1}, "must be at least 0"),
        ({"tick": 0}, "tick = 0: must be at least"),
        ({"quota": "some"}, "quota = 'some': unknown; choose one of none, fixed"),
        ({"checkpoint_on_grace": "perhaps"}, "must be true or false"),
    ],
)
def test_wrong_values_are_named_with_what_is_allowed(values: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Parameters().changed(values)


def test_toml_with_or_without_a_table(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text("m = 5\n[parameters]\ngamma = 0.5\n")
    assert Parameters.from_toml(file) == Parameters(m=5.0, gamma=0.5)
    file.write_text("m = [")
    with pytest.raises(InputError, match="not a TOML file"):
        Parameters.from_toml(file)
    with pytest.raises(InputError, match="cannot be read"):
        Parameters.from_toml(tmp_path / "none.toml")
    file.write_text("mm = 5")
    with pytest.raises(InputError, match=r"p\.toml: unknown parameter 'mm'"):
        Parameters.from_toml(file)


def test_settings_are_key_value_pairs() -> None:
    assert parse_settings(["m=5", " quota = fixed "]) == {"m": "5", "quota": "fixed"}
    with pytest.raises(InputError, match="write it as key=value"):
        parse_settings(["m"])


def test_guarantee_and_checkpoint_reach_tasks_that_do_not_say_their_own() -> None:
    # checkpoint_interval=100 for tasks at the usual hour: 250 s of progress, 200 saved: 290 + 40 + 300.
    story = play(nodes(8), spot("s", gpus=8, lasting=500), hp("h", gpus=8, at=250, lasting=10), checkpoint_interval=100)
    assert story.spans("s")[1] == (290.0, 630.0)


@pytest.mark.parametrize("name", ["alpha", "grace_period", "m", "tick", "restart_overhead"])
def test_nothing_may_be_endless(name: str) -> None:
    with pytest.raises(InputError, match=f"{name} = inf: must be a finite number"):
        Parameters().changed({name: "inf"})


def test_the_words_a_parameter_may_have_are_those_that_there_is_a_part_for() -> None:
    assert set(QUOTAS) == set(quotas._QUOTAS)
    assert set(CHOICES["aggregate"]) == set(AGGREGATES)
    assert set(CHOICES["resources"]) == {"off", "on"}


# -- parameters that are gone ------------------------------------------------------------------------------


def test_a_file_from_before_goes_on_working_and_is_told_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    parameters._say_once.cache_clear()
    file = tmp_path / "p.toml"
    file.write_text('admission = "guarantee"\n[parameters]\nm = 5\n')
    assert Parameters.named_in_toml(file) == (Parameters(m=5.0), frozenset({"m"}))
    assert Parameters.from_toml(file) == Parameters(m=5.0)
    assert Parameters().changed(parse_settings(["admission=guarantee"])) == Parameters()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        (
            "WARNING",
            "parameter admission was taken out in this version and is passed over: it is always guarantee now",
        )
    ]


def test_what_is_gone_cannot_be_asked_for(tmp_path: Path) -> None:
    says = "was taken out in this version; docs/concepts/gfs-plus.md says why. Leave the line out"
    with pytest.raises(InputError) as refused:
        Parameters().changed({"admission": "likely"})
    assert str(refused.value) == f"admission = 'likely': {says}"
    file = tmp_path / "p.toml"
    file.write_text('admission = "likely"\n')
    with pytest.raises(InputError) as refused:
        Parameters.from_toml(file)
    assert str(refused.value) == f"{file}: admission = 'likely': {says}"


@pytest.mark.parametrize("name", TAKEN_OUT)
def test_a_page_says_why_a_parameter_is_gone(name: str) -> None:
    assert name not in Parameters().to_dict()
    page = Path(__file__).parents[2] / TAKEN_OUT[name][1]
    assert f"`{name}" in page.read_text()
