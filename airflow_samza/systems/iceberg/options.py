"""Options of Iceberg tables, read or written, and the settings of their catalog: checked once, without pyiceberg."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.errors import ConfigError
from airflow_samza.secrecy import without, without_passwords
from airflow_samza.systems.filesystems.addresses import Address, Folders
from airflow_samza.systems.system import StreamSpec, SystemBinding, option_text
from airflow_samza.systems.tables.options import (
    BY_COMMA,
    OF_OUTPUT,
    REJECT,
    TableOutputOptions,
    bad_name,
    check_one_version,
    check_options,
    checked_overwrites,
    not_made,
    point_in_time,
    version_number,
)
from airflow_samza.systems.tables.transforms import is_transform

CATALOG_FILE = "catalog.db"
"""The SQLite database of an embedded catalog, in its folder."""

CATALOG_TYPES = ("rest", "sql", "hive", "glue", "dynamodb", "bigquery")

_OURS = ("root", "partitions", "catalog", "locations")
_OBJECTS = ("auth", "ssl")
"""Properties of REST catalogs that are objects: ways to sign in, and certificates."""
_DEFAULT = "default"
_WHAT = "an Iceberg table"
_OF_STREAM = ("table", "snapshot", "ref", "as_of", "overwrites")
_VERSIONS = ("snapshot", "ref", "as_of")

SORT_BY = "sort_by"
"""The option of an output by which the files of a table that is made are sorted."""

_ORDERED = re.compile(
    r"(?P<what>.+?)(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?", re.IGNORECASE
)
_PARTITION_FIELD = re.compile(r"(?P<transform>[a-z]+)\(\s*(?:(?P<width>\d+)\s*,\s*)?(?P<column>[^(),]+?)\s*\)")


@dataclass(frozen=True)
class CatalogSettings:
    """Settings of a catalog: its name, type, and pyiceberg's properties, of which no text shows those in ``secret``.

    ``folder`` is that of an embedded catalog. ``place`` says for people where the catalog is. Below ``locations`` files
    of tables may lie that do not lie below their tables.
    """

    system: str
    name: str
    type: str
    properties: Mapping[str, Any] = field(repr=False)
    secret: frozenset[str] = frozenset()
    folder: str | None = None
    locations: tuple[str, ...] = ()

    @classmethod
    def of(cls, system: str, binding: SystemBinding) -> CatalogSettings:
        """Return the settings in a binding: a ``root`` alone is the embedded catalog, else pyiceberg's properties."""
        properties: dict[str, Any] = {
            name: _object(system, name, value) if name in _OBJECTS else option_text(value)
            for name, value in binding.options.items()
            if name not in _OURS and value is not None
        }
        name = str(binding.options.get("catalog") or _DEFAULT)
        root, locations = binding.options.get("root"), _locations(system, binding.options.get("locations"))
        if root:
            folder = str(Path(str(root)).absolute())
            return cls(system, name, "sql", _embedded(system, str(root), properties), binding.secret, folder, locations)
        kind = (properties.pop("type", "") or _type_of(properties.get("uri", ""))).lower()
        if kind not in CATALOG_TYPES:
            raise ConfigError(
                f"System {system!r} (iceberg) has {f'the catalog type {kind!r}' if kind else 'no catalog'}.",
                hint=f"{did_you_mean(kind, CATALOG_TYPES)}Set root= to a folder for a catalog in it, or uri= and type= "
                f"({', '.join(CATALOG_TYPES)}).",
                key="type" if kind else "root",
                value=kind,
            )
        if kind in ("rest", "sql", "hive") and not properties.get("uri"):
            raise ConfigError(
                f"System {system!r} (iceberg) has a catalog of type {kind} and no uri.",
                hint="Set its uri, such as https://catalog.example.org or postgresql+psycopg2://host/database.",
                key="uri",
            )
        return cls(system, name, kind, properties, binding.secret, locations=locations)

    @property
    def place(self) -> str:
        """Place of the catalog, for people."""
        if self.folder is not None:
            return f"{self.folder}/{CATALOG_FILE}"
        return without_passwords(self.properties.get("uri", "")) or f"{self.type} catalog {self.name!r}"

    def without_secrets(self, text: str) -> str:
        """Return a text in which no secret of the binding can be read."""
        return without(text, [self.properties.get(name) for name in self.secret])


def _locations(system: str, said: object) -> tuple[str, ...]:
    """Return the folders that a binding allows for files of tables, from a text with commas or a list."""
    parts = said.split(",") if isinstance(said, str) else list(said) if isinstance(said, list | tuple) else []
    places = tuple(text for part in parts if (text := str(part).strip()))
    for place in places:
        if not Folders([place]).have(place) or not Address.of(place).scheme:
            raise ConfigError(
                f"System {system!r} (iceberg) has the location {without_passwords(place)!r}, "
                "which is no folder of a lake.",
                hint='Write an absolute path or a URL: locations="s3://lake/archive,/data/archive".',
                key="locations",
                value=without_passwords(place),
            )
    return places


def _object(system: str, name: str, value: object) -> dict[str, Any]:
    """Return a property that is an object: as it is, or as a text of JSON."""
    if isinstance(value, str):
        with suppress(ValueError):
            value = json.loads(value)
    if not isinstance(value, Mapping):
        shape = '{"type": "basic", "basic": {"username": …}}' if name == "auth" else '{"cabundle": "/etc/ca.pem"}'
        raise ConfigError(
            f"System {system!r} (iceberg) has {name}, which is no object of JSON.",
            hint=f"Write it as pyiceberg has it: {shape}.",
            key=name,
        )
    return dict(value)


def _type_of(uri: str) -> str:
    """Return the type of catalog that a URI is of: as pyiceberg infers it."""
    if uri.startswith("http"):
        return "rest"
    if uri.startswith("thrift"):
        return "hive"
    return "sql" if uri.startswith(("sqlite", "postgresql")) else ""


def _embedded(system: str, root: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    for name in ("uri", "type", "warehouse"):
        if name in properties:
            raise ConfigError(
                f"System {system!r} (iceberg) has both root and {name}.",
                hint=f"root= is a folder with a catalog of its own in it. Leave {name} out, or leave root out.",
                key=name,
            )
    if "://" in root:
        raise ConfigError(
            f"System {system!r} (iceberg) has the root {without_passwords(root)}, and its catalog needs a folder.",
            hint="Name a folder of this host; or set type= and uri= of a catalog, and warehouse= to the URL.",
            key="root",
        )
    folder = Path(root).absolute()
    return {**properties, "uri": f"sqlite:///{folder / CATALOG_FILE}", "warehouse": f"file://{folder}"}


@dataclass(frozen=True)
class TableOptions:
    """Options of a table that is read: its name, and one of ``snapshot``, ``ref`` and ``as_of``, or none of them.

    ``overwrites`` is the rule for snapshots that have taken rows away, where the input is read by what is appended. Of
    the snapshots ``up_to`` the newest is the latest that is read; (): the newest that there is.
    """

    table: str
    snapshot: int | None = None
    ref: str | None = None
    as_of: datetime | None = None
    overwrites: str = REJECT
    up_to: tuple[int, ...] = ()

    @classmethod
    def of(cls, stream: StreamSpec) -> TableOptions:
        """Return the options of a stream; an unknown name or an impossible value is a ``ConfigError``."""
        options = check_options(stream, _OF_STREAM, what=_WHAT)
        check_one_version(stream, options, _VERSIONS, reads="one snapshot")
        as_of = point_in_time(stream, options.get("as_of"))
        overwrites = checked_overwrites(stream, options)
        name, ref = table_name(stream, options), options.get("ref") or None
        snapshot = _id(stream, options["snapshot"]) if options.get("snapshot") else None
        return cls(name, snapshot, ref, as_of, overwrites, tuple(_id(stream, text) for text in stream.up_to))


def identifier_of(table: str) -> tuple[str, ...]:
    """Return a table's name in parts; the namespace of a name without one is ``default``."""
    parts = tuple(table.split("."))
    return parts if len(parts) > 1 else (_DEFAULT, *parts)


def table_name(stream: StreamSpec, options: Mapping[str, str]) -> str:
    """Return the name of a stream's table; an impossible one is rejected."""
    table = options.get("table") or stream.name
    if not all(part.strip() for part in table.split(".")):
        raise bad_name(stream, table, 'Write table="namespace.name".')
    return table


def _id(stream: StreamSpec, text: str) -> int:
    hint = 'Write the id as the table has it: options={"snapshot": "8271638172635514"}; ref is a tag or branch.'
    return version_number(stream, text, "snapshot", 19, hint)


class Ordered(NamedTuple):
    """Field by which the files of a table are sorted."""

    column: str
    transform: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class OutputOptions(TableOutputOptions):
    """Options of a table of a catalog that is written.

    The files of a table that is made are sorted by the fields ``sort_by``.
    """

    sort_by: tuple[Ordered, ...] = ()

    @classmethod
    def of(cls, stream: StreamSpec) -> OutputOptions:
        """Return the options of an output; an unknown name or an impossible value is a ``ConfigError``."""
        options = check_options(stream, (*OF_OUTPUT, SORT_BY), what=_WHAT)
        checked = cls.checked(stream, options, table_name(stream, options), _partition_field)
        sort_by = options.get(SORT_BY) or ""
        if sort_by and not checked.create:
            raise not_made(stream.name, SORT_BY, sort_by)
        order = tuple(_ordered(stream, part.strip()) for part in BY_COMMA.split(sort_by) if part.strip())
        return replace(checked, sort_by=order)


def _ordered(stream: StreamSpec, text: str) -> Ordered:
    """Return a field of a sort order as SQL writes it: ``country``, ``at desc``, ``day(at) desc nulls first``."""
    match = _ORDERED.fullmatch(text)
    field = _field(match["what"]) if match is not None else None
    if match is None or field is None:
        raise ConfigError(
            f"The output {stream.name!r} is sorted by {text!r}, which is no field of a sort order.",
            hint='Write a column, or a transform of one, perhaps with its direction: "country", "at desc", '
            '"day(at) desc nulls first"; several with a comma between them.',
            key=SORT_BY,
            value=text,
        )
    descending = (match["direction"] or "").lower() == "desc"
    nulls = (match["nulls"] or "").lower()
    return Ordered(*field, descending, nulls == "first" if nulls else not descending)


def _field(text: str) -> tuple[str, str] | None:
    """Return the column and the transform of a field as SQL writes it: ``country``, ``day(at)``, ``bucket(16, id)``."""
    match = _PARTITION_FIELD.fullmatch(text)
    if match is None:
        return None if "(" in text else (text, "identity")
    width = match["width"]
    transform = match["transform"].removesuffix("s") if width is None else f"{match['transform']}[{width}]"
    return (match["column"], transform) if is_transform(transform) else None


def _partition_field(stream: StreamSpec, text: str) -> tuple[str, str]:
    """Return the column and the transform of a partition field."""
    field = _field(text)
    if field is not None:
        return field
    raise ConfigError(
        f"The output {stream.name!r} is partitioned by {text!r}, which is no partition field.",
        hint='Write a column, or a transform of one: "country", "day(at)" (also hour, month, year), "bucket(16, id)", '
        '"truncate(4, code)"; several with a comma between them.',
        key="partition_by",
        value=text,
    )
