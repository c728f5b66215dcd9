"""Every number a run can be given, and what is said about wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders import hp, nodes, play, spot
from gfs import InputError, Parameters
from gfs.assembly import aliases, quotas
from gfs.assembly.aliases import warn_once
from gfs.assembly.parameters import QUOTAS, TAKEN_OUT, parse_settings, read_config_file
from gfs.assembly.schedulers import warn_of_idle_settings
from gfs.quota.inventory import AGGREGATES


def test_the_defaults_are_those_of_the_paper() -> None:
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
        ({"m": "many"}, "m = 'many': must be a number from 1 to 1,000"),
        ({"m": "nan"}, "must be a number"),
        ({"gamma": 2}, "gamma = 2: must be a number from 0 to 1"),
        ({"quota_share": -0.1}, "quota_share = -0.1: must be a number from 0 to 1"),
        ({"grace_period": -1}, "must be a number from 0"),
        ({"grace_period": 1e12}, r"grace_period = 1e\+12: must be a number from 0 to 86,400"),
        ({"restart_overhead": "1e308"}, "restart_overhead = '1e308': must be a number from 0 to 86,400"),
        ({"tick": 0}, "tick = 0: must be a number from 1"),
        ({"tick": 1e300}, r"tick = 1e\+300: must be a number from 1 to 2,592,000"),
        ({"tick": 10**5000}, "tick = a number of thousands of digits: must be a number"),
        ({"tick": [300]}, r"tick = \[300\]: must be a number"),
        ({"quota": "some"}, "quota = 'some': must be one of none, fixed"),
        ({"country": 5}, "country = 5: must be text"),
        ({"first_day": "tomorrow"}, "first_day = 'tomorrow': must be a date such as 2024-09-30"),
        ({"checkpoint_on_grace": "perhaps"}, "must be true or false"),
        ({"patience": 1, "starvation_timeout": 2}, "leave one of them out"),
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


NUMBERS = [item.name for item in Parameters.describe() if isinstance(item.default, float)]


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "1e300", "1e400"])
def test_every_number_has_bounds(name: str, value: str) -> None:
    with pytest.raises(InputError, match=f"{name} = '{value}': must be a number from"):
        Parameters().changed({name: value})
    with pytest.raises(InputError, match=f"{name} = .*: must be a number from"):
        Parameters(**{name: float(value)})


def test_the_words_a_parameter_may_have_are_those_that_there_is_a_part_for() -> None:
    allowed = {item.name: item.allowed for item in Parameters.describe()}
    assert set(QUOTAS) == set(quotas._QUOTAS)
    assert set(allowed["aggregate"].split(", ")) == set(AGGREGATES)
    assert allowed["resources"] == "off, on"


def test_a_toml_file_of_windows_begins_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text("m = 5\nfirst_day = 2024-09-30\n", encoding="utf-8-sig")
    assert Parameters.from_toml(file) == Parameters(m=5.0, first_day="2024-09-30")


@pytest.mark.parametrize("content", ["m = " + "9" * 5000, "m = " + "[" * 100_000, "\x00"])
def test_a_toml_file_that_python_cannot_parse(tmp_path: Path, content: str) -> None:
    file = tmp_path / "p.toml"
    file.write_text(content)
    with pytest.raises(InputError, match=r"p\.toml: not a TOML file"):
        Parameters.from_toml(file)


# -- settings without effect -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheduler", "values", "idle"),
    [
        ("gfs", {"quota_share": 0.3}, "quota_share"),
        ("gfs", {"quota": "fixed", "quota_share": 0.3}, ""),
        ("static", {"quota_share": 0.3}, ""),
        ("static", {"theta": 60, "eta_max": 2}, "theta, eta_max"),
        ("lyra", {"p": 0.8}, "p"),
        ("lyra", {"p": 0.8, "quota": "forecast"}, ""),
        ("lyra", {"gamma": 0.5, "m": 2, "beta": 1}, "beta, gamma, m"),
        ("gfs", {"gamma": 0.5, "m": 2, "beta": 1, "p": 0.8, "theta": 60, "eta_min": 0.2}, ""),
        ("gfs", {"hp_lease": 600, "lease_aging": 60, "resume_overhead": 3}, "hp_lease, resume_overhead, lease_aging"),
        ("chronus", {"hp_lease": 600, "lease_aging": 60, "resume_overhead": 3, "solver_seconds": 1}, ""),
        ("gfs", {"starvation_timeout": 60}, "starvation_timeout"),
        ("gfs-plus", {"starvation_timeout": 60}, ""),
        ("gfs-plus", {"forecaster": "persistence", "p": 0.8, "aggregate": "total"}, "aggregate, forecaster"),
        ("gfs-d", {"theta": 60}, "theta"),
        ("yarn-cs", {"grace_period": 60, "tick": 60, "alpha": 1, "resources": "on"}, ""),
    ],
)
def test_a_setting_that_the_scheduler_does_not_read_is_told(
    scheduler: str, values: dict[str, object], idle: str, caplog: pytest.LogCaptureFixture
) -> None:
    warn_once.cache_clear()
    parameters, given = Parameters.given(None, values)
    warn_of_idle_settings([scheduler], nodes(8), parameters, given)
    said = [record.getMessage() for record in caplog.records]
    assert [text.partition(": no effect under")[0] for text in said] == ([idle] if idle else [])


def test_several_schedulers_are_told_together(caplog: pytest.LogCaptureFixture) -> None:
    warn_once.cache_clear()
    parameters, given = Parameters.given(None, {"p": 0.8, "quota_share": 0.3})
    warn_of_idle_settings(["lyra", "static"], nodes(8), parameters, given)
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("p: no effect under lyra (quota: none), static (quota: fixed 30%)")


# -- names of earlier versions -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new"),
    [
        *((({name: 60.0}), ({present: 60.0})) for name, present in aliases.PARAMETERS.items()),
        ({"quota": "open-loop"}, {"quota": "forecast-no-feedback"}),
        ({"checkpoint_on_grace": "yes"}, {"checkpoint_on_grace": True}),
    ],
)
def test_an_old_name_works_with_one_line_of_warning(
    old: dict[str, object], new: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    warn_once.cache_clear()
    for _ in range(2):
        assert Parameters().changed(old) == Parameters().changed(new)
    (said,) = [record.getMessage() for record in caplog.records]
    assert "is now called" in said


# -- parameters that are gone ------------------------------------------------------------------------------


def test_a_file_from_before_goes_on_working_and_is_told_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    warn_once.cache_clear()
    file = tmp_path / "p.toml"
    file.write_text('admission = "guarantee"\n[parameters]\nm = 5\n')
    assert Parameters.named_in_toml(file) == (Parameters(m=5.0), frozenset({"m"}))
    assert Parameters.from_toml(file) == Parameters(m=5.0)
    assert Parameters().changed(parse_settings(["admission=guarantee"])) == Parameters()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        (
            "WARNING",
            "parameter admission was taken out in this version and is ignored: it is always guarantee now",
        )
    ]


def test_what_is_gone_cannot_be_asked_for(tmp_path: Path) -> None:
    page = "docs/decisions/0032-admission-by-likely-run-time.md"
    says = f"was taken out in this version; {page} says why. Leave the line out"
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
    page = Path(__file__).parents[3] / TAKEN_OUT[name][1]
    assert f"`{name}" in page.read_text()


class TestPools:
    """What single pools have of their own: [pools.MODEL]."""

    def test_a_pool_has_what_it_says_and_the_rest_of_the_cluster(self, tmp_path: Path) -> None:
        file = tmp_path / "gfs.toml"
        file.write_text(
            'scheduler = "gfs-plus"\np = 0.95\ntheta = 60\n[pools.A100]\nquota = "fixed"\nquota_share = 0.2\n'
            '[pools."H800 SXM"]\nscheduler = "lyra"\np = 0.8\n',
            encoding="utf-8",
        )
        parameters, named = Parameters.named_in_toml(file)
        assert named == {"p", "theta", "pools"}
        a100, none = parameters.for_pool("A100")
        assert (a100.quota, a100.quota_share, a100.p, a100.theta, none) == ("fixed", 0.2, 0.95, 60, "")
        h800, lyra = parameters.for_pool("H800 SXM")
        assert (h800.quota, h800.p, lyra) == ("", 0.8, "lyra")
        other, none = parameters.for_pool("A10")
        assert (other, none) == (Parameters(p=0.95, theta=60.0), "")
        assert read_config_file(file)[1] == "gfs-plus"

    def test_they_stand_in_the_summary_and_come_back_from_it(self) -> None:
        assert "pools" not in Parameters().to_dict()
        own = {"A100": {"scheduler": "static", "quota_share": 0.2}}
        parameters = Parameters().changed({"pools": own})
        assert parameters.to_dict()["pools"] == own
        assert Parameters().changed(parameters.to_dict()) == parameters
        assert hash(parameters) != hash(Parameters())

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            (
                "[pools.A100]\nquota_shares = 0.2",
                r"\[pools.A100\] unknown parameter 'quota_shares'; did you mean quota_share",
            ),
            ("[pools.A100]\np = 2", r"\[pools.A100\] p = 2"),
            ("[pools.A100]\ngrace_period = 60", r"\[pools.A100\] grace_period: holds for the whole cluster"),
            ("[pools.A100]\nguarantee_hours = 4", "guarantee_hours: holds for the whole cluster"),
            ("[pools.A100.pools.B]\np = 0.9", "pools: holds for the whole cluster"),
            ("[pools.A100]\neta_min = 5", "eta_min = 5: must not be above eta_max"),
            ("[pools.A100]\nscheduler = 3", r"\[pools.A100\] scheduler = 3: must be a name"),
            ("[pools]\nA100 = 3", r"\[pools.A100\]: must be a table"),
            ("scheduler = 3", "scheduler = 3: must be a name"),
        ],
    )
    def test_what_is_wrong_names_the_file_and_the_pool(self, text: str, said: str, tmp_path: Path) -> None:
        file = tmp_path / "gfs.toml"
        file.write_text(text, encoding="utf-8")
        with pytest.raises(InputError, match=said) as error:
            Parameters.from_toml(file)
        assert str(file) in str(error.value)

    def test_on_the_command_line_there_are_none(self) -> None:
        with pytest.raises(InputError, match=r"stands in a config file, such as \[pools.A100\]"):
            Parameters().changed({"pools": "A100"})
