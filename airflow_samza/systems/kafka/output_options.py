"""Options of an output: how it is delivered, what a rerun may do, and the columns of key, timestamp and headers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.errors import ConfigError
from airflow_samza.systems.capabilities import Delivery
from airflow_samza.systems.system import StreamSpec

DELIVERY, EXACTLY_ONCE, AT_LEAST_ONCE = "delivery", "exactly_once", "at_least_once"
ON_RERUN, REJECT, APPEND = "on_rerun", "reject", "append"
KEY_COLUMN, TIMESTAMP_COLUMN, HEADERS_COLUMN = "key_column", "timestamp_column", "headers_column"

_CHOICES = {DELIVERY: (EXACTLY_ONCE, AT_LEAST_ONCE), ON_RERUN: (REJECT, APPEND)}
_NAMES = (*_CHOICES, KEY_COLUMN, TIMESTAMP_COLUMN, HEADERS_COLUMN)

IN_TRANSACTIONS = Delivery(True, "for readers with isolation.level=read_committed")
ONE_BY_ONE = Delivery(False, "after a death in between, messages come again")


@dataclass(frozen=True)
class OutputOptions:
    """Options of one output."""

    delivery: Delivery
    appends: bool
    columns: Mapping[str, str]
    """By option (``key_column``, …) the column that it names."""

    @classmethod
    def of(cls, stream: StreamSpec) -> OutputOptions:
        """Return a stream's options; one that is not known is rejected."""
        options = dict(stream.options)
        for name, text in options.items():
            if name not in _NAMES:
                raise unknown_option("output", stream.name, name, text, _NAMES)
            if name in _CHOICES and text not in _CHOICES[name]:
                raise ConfigError(
                    f"The output {stream.name!r} has {name}={text!r}, which is not known.",
                    hint=f'Write "{_CHOICES[name][0]}" (the default) or "{_CHOICES[name][1]}".',
                    key=name,
                    value=text,
                )
        return cls(
            IN_TRANSACTIONS if options.get(DELIVERY, EXACTLY_ONCE) == EXACTLY_ONCE else ONE_BY_ONE,
            options.get(ON_RERUN, REJECT) == APPEND,
            {name: text for name, text in options.items() if name not in _CHOICES},
        )


def unknown_option(what: str, stream: str, option: str, value: str, names: Sequence[str]) -> ConfigError:
    """Return the error for an option that no stream of Kafka, or no output there, has."""
    return ConfigError(
        f"The {what} {stream!r} has the option {option!r}, which its system of kind kafka does not know.",
        hint=f"{did_you_mean(option, names)}Its options are {', '.join(names)}; "
        "settings of the client belong to the system.",
        key=option,
        value=value,
    )
