import re
from pathlib import Path

import pytest

from gateway.errors import ConfigurationError
from gateway.settings import PREFIX, Settings, event_loop, read_settings

SECRET = "sk-value-of-a-variable"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without any variable of ours."""
    import os

    for name in [name for name in os.environ if name.startswith((PREFIX, "OTEL_", "XDG_"))]:
        monkeypatch.delenv(name)
    return monkeypatch


def test_without_any_variable_it_serves_on_loopback() -> None:
    """The defaults are those of somebody who tries it out."""
    settings = read_settings()
    assert ("127.0.0.1", 8080, None) == (settings.host, settings.port, settings.policy)


def test_variables_set_fields(environment: pytest.MonkeyPatch) -> None:
    """A variable is the prefix and the field's name."""
    environment.setenv("HEADRACE_PORT", "9000")
    environment.setenv("HEADRACE_STATE_DIR", "/srv/state")
    settings = read_settings()
    assert (9000, Path("/srv/state")) == (settings.port, settings.state_dir)


def test_options_go_before_variables_where_they_are_given(environment: pytest.MonkeyPatch) -> None:
    """A command-line option beats its variable; one that was not given does not."""
    environment.setenv("HEADRACE_PORT", "9000")
    environment.setenv("HEADRACE_HOST", "::1")
    settings = read_settings(port=9001, host=None)
    assert (9001, "::1") == (settings.port, settings.host)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HEADRACE_PORT", SECRET),
        ("HEADRACE_PORT", "65536"),
        ("HEADRACE_WORKERS", "0"),
        ("HEADRACE_WORKERS", "65"),
        ("HEADRACE_LEDGER", SECRET),
        ("HEADRACE_LOG_LEVEL", SECRET),
        ("HEADRACE_DRAIN_S", "-1"),
        ("HEADRACE_DRAIN_S", "inf"),
        ("HEADRACE_BODY_TIMEOUT_S", "nan"),
        ("HEADRACE_BODY_TIMEOUT_S", "0"),
        ("HEADRACE_MAX_BODY_BYTES", "1MB"),
        ("HEADRACE_MAX_DEPTH", "3"),
    ],
)
def test_a_wrong_value_is_reported_by_the_variables_name_and_not_repeated(
    environment: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """The value of a variable may be a secret that landed in the wrong place."""
    environment.setenv(name, value)
    with pytest.raises(ConfigurationError) as caught:
        read_settings()
    words = str(caught.value)
    assert words.startswith(f"{name}: ")
    assert SECRET not in words
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_wrong_option_is_reported_like_its_variable() -> None:
    """An option and a variable are the same setting."""
    with pytest.raises(ConfigurationError, match="HEADRACE_PORT"):
        read_settings(port=70_000)


def test_a_variable_that_is_no_setting_is_refused(environment: pytest.MonkeyPatch) -> None:
    """A misspelt variable must not be ignored in silence, and is answered with the nearest, or with those there are."""
    environment.setenv("HEADRACE_PROT", SECRET)
    with pytest.raises(ConfigurationError, match=r"HEADRACE_PROT is no setting \(did you mean HEADRACE_PORT\?\)"):
        read_settings()
    environment.delenv("HEADRACE_PROT")
    environment.setenv("HEADRACE_QQ", SECRET)
    with pytest.raises(ConfigurationError, match=r"HEADRACE_QQ is no setting .*HEADRACE_PORT") as caught:
        read_settings()
    assert SECRET not in str(caught.value)


def test_secrets_are_read_by_the_name_that_the_policy_file_gives(environment: pytest.MonkeyPatch) -> None:
    """An empty variable is as good as none."""
    environment.setenv("SOME_KEY", SECRET)
    environment.setenv("EMPTY_KEY", "")
    settings = Settings()
    assert (SECRET, None, None) == tuple(settings.secret(name) for name in ("SOME_KEY", "EMPTY_KEY", "NO_KEY"))


def test_folders_follow_the_xdg_rule(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A relative path in an XDG variable is to be ignored, says its specification."""
    environment.setenv("HOME", str(tmp_path))
    environment.setenv("XDG_CACHE_HOME", "relative")
    environment.setenv("XDG_STATE_HOME", "/state")
    settings = read_settings()
    assert Path("/state/headrace") == settings.state_dir
    assert tmp_path / ".cache/headrace/models" == settings.model_dir


def test_opentelemetry_keeps_its_own_names(environment: pytest.MonkeyPatch) -> None:
    """Its variables, and no others, are handed on."""
    environment.setenv("OTEL_SERVICE_NAME", "gate")
    assert {"OTEL_SERVICE_NAME": "gate"} == Settings.otel_variables()


def test_the_event_loop_is_one_that_uvicorn_knows(environment: pytest.MonkeyPatch) -> None:
    """uvloop, save where there is none."""
    assert "uvloop" == event_loop()
    environment.setattr("sys.platform", "win32")
    assert "asyncio" == event_loop()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://api.example.com/v1", True),
        ("https://inner.example.org/v1", False),
        ("http://api.example.com/v1", False),
        ("https://127.0.0.1:8000/v1", False),
        ("https://[::1]:8000/v1", False),
        ("https://localhost/v1", False),
    ],
)
def test_an_address_is_behind_a_proxy_where_the_environment_says_so(
    url: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By scheme, with exceptions, and never on this machine."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", ".example.org")
    assert expected == Settings.behind_proxy(url)


def test_the_hub_has_its_own_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """As every tool of Hugging Face's reads them; what is not set is not said."""
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.example/ ")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    assert {"url": "https://hub.example"} == read_settings().hub()
    monkeypatch.setenv("HF_TOKEN", "hf_x")
    assert {"url": "https://hub.example", "token": "hf_x"} == read_settings().hub()


def test_every_setting_is_in_the_operators_table() -> None:
    """The page says that what is not in it is an error."""
    page = Path(__file__).parents[3].joinpath("docs", "operating.md").read_text()
    rows = "".join(line for line in page.splitlines() if line.startswith("| `HEADRACE_"))
    told = {name.lower() for name in re.findall(r"HEADRACE_([A-Z_]+)", rows)}
    assert set(Settings.model_fields) == told
