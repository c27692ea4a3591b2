"""Access to roots: options with which a process opens a root, secrets among them, by the root's URL.

A process gets them once, from a connection, the command line's environment or the hand-over, before anything opens the
root. Whatever opens it later names the root alone, so records and plans hold no access. Where several connections of
one process have the same root, each opens it in a context of its own, with its own options. Faces set it, the launcher
hands it on, and whatever opens a root uses it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from airflow_samza.errors import ConfigError
from airflow_samza.secrecy import secret_names, without_passwords

ROOT_ACCESS = ":root"
"""The name under which the root's access travels beside the bindings of systems; no system has a name like this."""


@dataclass(frozen=True)
class RootAccess:
    """Options of a root's filesystem: identity, region, endpoint and so on; the ``secret`` ones are shown nowhere.

    ``of`` is the connection that has them, if one has.
    """

    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    of: str = field(default="", compare=False)

    def __bool__(self) -> bool:
        return bool(self.options)

    @property
    def secret(self) -> frozenset[str]:
        """The names of the options that hold secrets."""
        return secret_names(self.options)


NO_ACCESS = RootAccess()
"""No options: the environment, the host's role, or nothing at all opens the root."""

_ACCESSES: dict[str, dict[str, RootAccess]] = {}
"""Accesses that this process was given, by root and connection."""
_WITHIN: ContextVar[Mapping[str, RootAccess] | None] = ContextVar("airflow_samza_root_access", default=None)

_Method = TypeVar("_Method", bound=Callable[..., Any])


def give_access(root: str, access: RootAccess) -> None:
    """Let this process open a root with these options from now on; the ones of this connection before are forgotten.

    Options of no connection take the place of all, and no options take all back.
    """
    before = _ACCESSES.pop(_key(root), {})
    if access:
        kept = {name: other for name, other in before.items() if name} if access.of else {}
        _ACCESSES[_key(root)] = {**kept, access.of: access}


@contextmanager
def access_within(root: str, access: RootAccess) -> Iterator[None]:
    """Open a root with these options in this context alone: one process may look at a root for several connections."""
    token = _WITHIN.set({**(_WITHIN.get() or {}), _key(root): access})
    try:
        yield
    finally:
        _WITHIN.reset(token)


def opens_root(method: _Method) -> _Method:
    """Make a method open the object's ``root`` with its ``access``, whatever other connections do.

    With None it is opened as the process does.
    """

    @functools.wraps(method)
    def within(self: Any, *args: Any, **kwargs: Any) -> Any:
        access = self.access
        if access is None:
            return method(self, *args, **kwargs)
        with access_within(self.root, access):
            return method(self, *args, **kwargs)

    return cast(_Method, within)


def access_of(root: str) -> RootAccess:
    """Return the options with which this process, or this context, opens a root.

    :class:`~airflow_samza.errors.ConfigError` where that could be those of several connections.
    """
    within = _WITHIN.get() or {}
    if _key(root) in within:
        return within[_key(root)]
    accesses = list(_ACCESSES.get(_key(root), {}).values())
    if any(access != accesses[0] for access in accesses):
        names, shown = " and ".join(repr(access.of) for access in accesses), without_passwords(root)
        raise ConfigError(
            f"The connections {names} open the root {shown} with different credentials, and here it is opened by its "
            "URL alone.",
            hint="Open it by the hook of one of them (SamzaHook(conn_id).files), or use each connection in a process "
            "of its own.",
            key="root",
            value=shown,
        )
    return accesses[0] if accesses else NO_ACCESS


def _key(root: str) -> str:
    return root.rstrip("/")
