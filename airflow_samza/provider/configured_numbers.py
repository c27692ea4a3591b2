"""Numbers of Airflow's configuration and of operators, held to the same limits where they are read.

The hook, and the operators of cleanup, retention and ``mode="auto"``, read theirs by it.
"""

from __future__ import annotations

from typing import TypeVar

from airflow_samza.errors import ConfigError
from airflow_samza.provider.airflow_versions import conf
from airflow_samza.provider.get_provider_info import CONFIG_SECTION

N = TypeVar("N", int, float)

_MOST = {"seconds": 31_536_000_000, "hours": 8_760_000, "days": 365_000}
"""The greatest numbers by their units, of times a millennium: what comes after it is soon no date any more."""


def configured_number(name: str, usual: N, unit: str, *, may_be_0: bool = False) -> N:
    """Return a number of the section ``[samza]``, ``usual`` where nobody has configured it."""
    read = conf.getint if isinstance(usual, int) else conf.getfloat
    number: N = read(CONFIG_SECTION, name, fallback=usual)
    check_number(f"[{CONFIG_SECTION}] {name} = {number:g} in Airflow's configuration", name, number, unit, may_be_0)
    return number


def check_number(subject: str, name: str, number: float, unit: str, may_be_0: bool = False) -> None:
    """Reject a number that is not above 0 (below 0 where 0 has a meaning), or that is too great."""
    most = _MOST.get(unit, 10**18)
    if (number > 0 or (may_be_0 and number == 0)) and number <= most:
        return
    least = "0 or more" if may_be_0 else "above 0"
    raise ConfigError(
        f"{subject} is not {f'at most {most:,}' if number > most else least}.",
        hint=f"Give a number of {unit} {'from 0 on' if may_be_0 else least}{f' up to {most:,}' * (number > most)}.",
        key=name,
        value=number,
    )
