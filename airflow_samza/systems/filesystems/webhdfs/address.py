"""Addresses of HDFS: the NameNodes that a URL means, and the path on them.

``webhdfs://host:port/path`` and ``swebhdfs://`` (over TLS) name the HTTP address of a NameNode, or of several with
commas between them; ``hdfs://`` names the address of its RPC, or a nameservice, as Hadoop's own clients do. What stands
for what is looked up in the cluster's configuration (``HADOOP_CONF_DIR``); without one it is what the process that
submitted found there, else a NameNode listens where Hadoop's default says. Roots, locations of files and bindings are
recognised by it.
"""

from __future__ import annotations

import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from airflow_samza.errors import ConfigError

SCHEMES = ("webhdfs", "swebhdfs", "hdfs")

# Hadoop 3's own defaults, for NameNodes that are named without a port, or by a configuration without one.
_HTTP_PORT, _HTTPS_PORT = 9870, 9871

_OF_SPARK = "__spark_conf__/__hadoop_conf__"


@dataclass(frozen=True)
class Address:
    """NameNodes of one filesystem, by their HTTP addresses (``http://host:port``), and the form of paths on it."""

    namenodes: tuple[str, ...]
    shown: str

    def url(self, path: str) -> str:
        """Return the URL of a path, as Hadoop's own clients take it."""
        return f"{self.shown}/{path}"


def is_hdfs(url: str) -> bool:
    """Return whether a URL is of HDFS."""
    return url.partition("://")[0].lower() in SCHEMES and "://" in url


def parse_address(
    url: str, environment: Mapping[str, str] | None = None, fallback: Sequence[str] = ()
) -> tuple[Address, str]:
    """Return the address in a URL, and the absolute path.

    ``fallback`` are the NameNodes of an ``hdfs://`` URL that this process's configuration does not know.

    >>> parse_address("webhdfs://nn1:9870,nn2:9870/samza", {})
    (Address(namenodes=('http://nn1:9870', 'http://nn2:9870'), shown='webhdfs://nn1:9870,nn2:9870'), '/samza')
    >>> parse_address("hdfs://nn:8020/samza", {})[0].namenodes
    ('http://nn:9870',)
    >>> parse_address("hdfs://nn:8020/samza", {}, ["http://nn:50070"])[0].namenodes
    ('http://nn:50070',)
    """
    parts = urlsplit(url)
    scheme, authority = parts.scheme.lower(), parts.netloc
    if "@" in authority:
        raise ConfigError(
            f"The URL {scheme}://{authority.rpartition('@')[2]}{parts.path} names a user, "
            "and plans and logs show URLs.",
            hint="Leave the user out; set HADOOP_USER_NAME, or the login of the system's connection.",
            key="root",
        )
    settings = hadoop_settings(os.environ if environment is None else environment)
    authority = authority or urlsplit(settings.get("fs.defaultFS", "")).netloc
    if not authority:
        raise ConfigError(
            f"The URL {url!r} names no NameNode, and there is no fs.defaultFS in HADOOP_CONF_DIR.",
            hint="Write webhdfs://host:port/path, or set HADOOP_CONF_DIR to the folder of core-site.xml.",
            key="root",
            value=url,
        )
    secure = scheme == "swebhdfs" or (scheme == "hdfs" and settings.get("dfs.http.policy") == "HTTPS_ONLY")
    path = unquote(parts.path) or "/"
    known = tuple(fallback) if scheme == "hdfs" else ()
    namenodes = _of_configuration(scheme, authority, settings, secure) or known
    if not namenodes:
        hosts = [_with_port(host, secure, keep=scheme != "hdfs") for host in authority.split(",") if host]
        namenodes = tuple(f"{'https' if secure else 'http'}://{host}" for host in hosts)
    return Address(namenodes, f"{scheme}://{authority}"), path if path == "/" else path.rstrip("/")


def configured_namenodes(url: str, environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return the NameNodes of an ``hdfs://`` URL that the configuration knows, for processes without one."""
    parts = urlsplit(url)
    if parts.scheme.lower() != "hdfs":
        return ()
    settings = hadoop_settings(os.environ if environment is None else environment)
    authority = parts.netloc or urlsplit(settings.get("fs.defaultFS", "")).netloc
    return _of_configuration("hdfs", authority, settings, settings.get("dfs.http.policy") == "HTTPS_ONLY")


def _of_configuration(scheme: str, authority: str, settings: Mapping[str, str], secure: bool) -> tuple[str, ...]:
    namenodes = _of_nameservice(authority, settings, secure)
    if namenodes or scheme != "hdfs":
        return namenodes
    host = _of_rpc(authority, settings, secure)
    return (f"{'https' if secure else 'http'}://{host}",) if host else ()


def hadoop_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings in core-site.xml and hdfs-site.xml of ``HADOOP_CONF_DIR``; none without them.

    A container of YARN without the variable has the submitter's, which Spark brings into the folder where it runs.
    """
    settings: dict[str, str] = {}
    folder = environment.get("HADOOP_CONF_DIR") or (_OF_SPARK if os.path.isdir(_OF_SPARK) else "")
    for name in ("core-site.xml", "hdfs-site.xml") if folder else ():
        file = Path(str(folder), name)
        try:
            tree = ElementTree.parse(file)
        except FileNotFoundError:
            continue
        except (OSError, ElementTree.ParseError) as error:
            raise ConfigError(
                f"Hadoop's configuration {file} cannot be read: {error}.",
                hint="Correct it, or unset HADOOP_CONF_DIR.",
                key="HADOOP_CONF_DIR",
            ) from None
        for entry in tree.getroot().iter("property"):
            settings[(entry.findtext("name") or "").strip()] = (entry.findtext("value") or "").strip()
    return settings


def _of_nameservice(name: str, settings: Mapping[str, str], secure: bool) -> tuple[str, ...]:
    """Return the NameNodes of a logical name, where the configuration knows it as one."""
    if name not in _names(settings.get("dfs.nameservices", "")):
        return ()
    namenodes = []
    for namenode in _names(settings.get(f"dfs.ha.namenodes.{name}", "")):
        address = settings.get(f"dfs.namenode.{'https' if secure else 'http'}-address.{name}.{namenode}")
        rpc = settings.get(f"dfs.namenode.rpc-address.{name}.{namenode}", "")
        host = address or (_with_port(rpc, secure, keep=False) if rpc else "")
        if host:
            namenodes.append(f"{'https' if secure else 'http'}://{host}")
    if not namenodes:
        raise ConfigError(
            f"HADOOP_CONF_DIR knows the nameservice {name!r}, and no address of its NameNodes.",
            hint=f"Set dfs.ha.namenodes.{name} and dfs.namenode.http-address.{name}.<NameNode> in hdfs-site.xml, or "
            "write webhdfs://host:port.",
            key="root",
            value=name,
        )
    return tuple(namenodes)


def _of_rpc(authority: str, settings: Mapping[str, str], secure: bool) -> str:
    """Return the HTTP address of the NameNode whose RPC address this is, where the configuration has one."""
    rpc = settings.get("dfs.namenode.rpc-address") or urlsplit(settings.get("fs.defaultFS", "")).netloc
    address = settings.get(f"dfs.namenode.{'https' if secure else 'http'}-address", "")
    if rpc != authority or not address:
        return ""
    host, colon, port = address.rpartition(":")
    return f"{authority.partition(':')[0]}:{port}" if colon and host in ("0.0.0.0", "") else address


def _with_port(authority: str, secure: bool, *, keep: bool) -> str:
    """Return a host with the port of its HTTP interface.

    Its own (``keep``), or the default, since another protocol's port does not help.
    """
    host, colon, port = authority.rpartition(":")
    if not colon or authority.endswith("]"):  # an IPv6 address without a port
        host, port = authority, ""
    return f"{host}:{port if keep and port else _HTTPS_PORT if secure else _HTTP_PORT}"


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
