"""System bindings on their way from process to process, with the root's access as one more of them.

The JSON of :func:`bindings_to_json` has their secrets: it is for a pipe between two processes, never for a file. The
launcher writes them for a stage runner, and the runner hands them to Spark's workers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from airflow_samza.system_kinds import EMBEDDED
from airflow_samza.systems.filesystems.object_store.access import environment_options
from airflow_samza.systems.filesystems.object_store.address import is_object_store
from airflow_samza.systems.filesystems.root_access import ROOT_ACCESS, RootAccess, access_of, give_access
from airflow_samza.systems.filesystems.webhdfs.address import configured_namenodes
from airflow_samza.systems.system import SystemBinding

_FETCHED = frozenset({"bearer_token"})


def with_root_access(bindings: Mapping[str, SystemBinding], root: str) -> dict[str, SystemBinding]:
    """Return bindings together with the access that this process has to the root; without one, alone.

    What its environment holds of it is a part: Spark's hosts have environments of their own.
    """
    access = with_namenodes(root, access_of(root))
    if is_object_store(root):
        access = RootAccess({**access.options, **environment_options(root, access.options)})
    kept = {name: binding for name, binding in bindings.items() if name != ROOT_ACCESS}
    return {**kept, ROOT_ACCESS: SystemBinding(EMBEDDED, access.options, access.secret)} if access else kept


def with_namenodes(root: str, access: RootAccess) -> RootAccess:
    """Return an access together with the HTTP addresses that this process's configuration has of an ``hdfs://`` root.

    Spark's hosts may lack that configuration.
    """
    namenodes = configured_namenodes(root)
    return RootAccess({**access.options, "namenodes": ",".join(namenodes)}, access.of) if namenodes else access


def access_digest(bindings: Mapping[str, SystemBinding]) -> str:
    """Return a digest of the secrets that open the root; "" without any.

    A token that is fetched anew for each task is none of them: a runner keeps the one it has while that is valid.
    """
    binding = bindings.get(ROOT_ACCESS)
    secret = {} if binding is None else {name: str(binding.options[name]) for name in binding.secret - _FETCHED}
    return hashlib.sha256(json.dumps(secret, sort_keys=True).encode()).hexdigest()[:16] if secret else ""


def has_old_secrets(bindings: Mapping[str, SystemBinding]) -> bool:
    """Return whether a runner was given secrets that may change without a change of :func:`access_digest`."""
    return any(
        binding.secret - _FETCHED != binding.secret if name == ROOT_ACCESS else binding.secret
        for name, binding in bindings.items()
    )


def take_root_access(root: str, bindings: Mapping[str, Any]) -> None:
    """Give this process the access to the root that came with bindings, in their JSON form."""
    access = bindings.get(ROOT_ACCESS)
    if access is not None:
        give_access(root, RootAccess(access["options"]))


def bindings_to_json(bindings: Mapping[str, SystemBinding]) -> dict[str, Any]:
    """Return the JSON form, secrets included."""
    return {
        name: {"kind": b.kind, "options": dict(b.options), "secret": sorted(b.secret)} for name, b in bindings.items()
    }


def bindings_from_json(data: Mapping[str, Any]) -> dict[str, SystemBinding]:
    """Return the bindings that :func:`bindings_to_json` wrote."""
    return {name: SystemBinding(b["kind"], b["options"], frozenset(b["secret"])) for name, b in data.items()}


def without_secrets(bindings: Mapping[str, SystemBinding]) -> dict[str, Any]:
    """Return what may be shown or hashed: kinds, and the options that are no secrets."""
    return {
        name: {
            "kind": b.kind,
            "options": {key: str(value) for key, value in sorted(b.options.items()) if key not in b.secret},
        }
        for name, b in sorted(bindings.items())
    }
