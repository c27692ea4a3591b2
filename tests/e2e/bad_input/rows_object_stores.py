"""Rows of roots on object stores: their URLs and options, and what a store rejects, which a proxy plays."""

from __future__ import annotations

import os
from importlib import import_module

from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.systems.filesystems import opening
from airflow_samza.systems.filesystems.object_store.filesystem import ObjectStoreFilesystem, open_object_store
from airflow_samza.systems.filesystems.object_store.probe import check_store
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.filesystems.root_access import NO_ACCESS, RootAccess, give_access
from tests.e2e.bad_input.page import row
from tests.e2e.bad_input.scene import Scene, raised
from tests.support.faulty_store import FaultyStore, at

OPENED = "when the root is opened"
CHECKED = "by the connection's test, and by `plan`"
USED = "when the root is used"
ROOT = "s3://models/samza"
KEYS = {"access_key_id": "key", "secret_access_key": "hunter2"}


def opened(store: FaultyStore, patience: float = 10.0) -> ObjectStoreFilesystem:
    return open_object_store(ROOT, {"endpoint": store.endpoint, **KEYS}, patience=patience)


def rejected(fault: str, *, conditional: bool = False) -> str:
    """Error of the check of a root where a store gives this answer (to conditional requests only)."""
    with FaultyStore("http://127.0.0.1:1") as store:
        store.fault = (lambda asked: fault if asked.conditional else "denied") if conditional else at(fault)
        return raised(lambda: check_store(opened(store))).replace(store.endpoint, "https://store.example.com")


@row("stores", "A URL of a root that holds credentials", OPENED)
def _(scene: Scene) -> str:
    return raised(lambda: SparkRuntime("s3://key:hunter2@models/samza"))


@row("stores", "A URL of a root without a bucket", OPENED)
def _(scene: Scene) -> str:
    return raised(lambda: SparkRuntime("abfss://models/samza"))


@row("stores", "A container of Azure without an account", OPENED)
def _(scene: Scene) -> str:
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_CONNECTION_STRING"):
        scene.monkeypatch.delenv(name, raising=False)
    return raised(lambda: SparkRuntime("az://models/samza"))


@row("stores", "An option that a store does not have", OPENED)
def _(scene: Scene) -> str:
    return raised(lambda: open_filesystem("gs://models/samza", {"regoin": "eu"}))


@row("stores", "Two connections that open one root with different credentials", OPENED)
def _(scene: Scene) -> str:
    try:
        for name in ("samza_writes", "samza_reads"):
            give_access(ROOT, RootAccess({**KEYS, "access_key_id": name}, name))
        return raised(lambda: open_filesystem(ROOT))
    finally:
        give_access(ROOT, NO_ACCESS)


@row("stores", "A store whose client is not installed", OPENED)
def _(scene: Scene) -> str:
    scene.monkeypatch.setattr(opening, "find_spec", lambda name: None)
    return raised(lambda: SparkRuntime(ROOT))


@row("stores", "A bucket that does not exist", CHECKED)
def _(scene: Scene) -> str:
    return rejected("bucketless")


@row("stores", "Credentials without a permission that a root needs", CHECKED)
def _(scene: Scene) -> str:
    return rejected("denied")


@row("stores", "A store without conditional create", CHECKED)
def _(scene: Scene) -> str:
    return rejected("lacking", conditional=True)


@row("stores", "Credentials that a store does not accept", CHECKED)
def _(scene: Scene) -> str:
    return rejected("unknown")


@row("stores", "A clock that is wrong", CHECKED)
def _(scene: Scene) -> str:
    return rejected("skewed")


@row("stores", "A token that has expired and is not renewed", USED)
def _(scene: Scene) -> str:
    with FaultyStore("http://127.0.0.1:1", at("expired")) as store:
        return raised(lambda: opened(store).read("a"))


@row("stores", "A store that throttles requests for longer than 40 s", USED)
def _(scene: Scene) -> str:
    with FaultyStore("http://127.0.0.1:1", at("slow")) as store:
        return raised(lambda: opened(store, patience=0.1).read("a"))


@row("stores", "A store that does not answer, for longer than 40 s", USED)
def _(scene: Scene) -> str:
    files = open_object_store(ROOT, {"endpoint": "http://127.0.0.1:1", **KEYS}, patience=0.1)
    return raised(lambda: files.read("a"))


@row("stores", "A process that was forked from one that had used a store", USED)
def _(scene: Scene) -> str:
    connections = import_module("airflow_samza.systems.filesystems.object_store.connections")
    files = open_object_store(ROOT, KEYS)
    scene.monkeypatch.setattr(connections, "_user", 4242)
    scene.monkeypatch.setattr(os, "getpid", lambda: 4243)
    try:
        return raised(lambda: files.read("a"))
    finally:
        scene.monkeypatch.undo()


def _by_connection(scene: Scene, root: str, kind: str, **extra: str) -> str:
    """The text of the error with which a samza connection opens its root by another connection."""
    scene.monkeypatch.setenv("AIRFLOW_HOME", str(scene.folder / "airflow"))
    scene.monkeypatch.setenv("AIRFLOW__CORE__LOAD_EXAMPLES", "False")
    import json

    from airflow.sdk import Connection

    from airflow_samza.provider.connections.root_access import find_access

    def connection(conn_type: str, fields: dict[str, str]) -> Connection:
        return Connection(conn_id="c", conn_type=conn_type, extra=json.dumps(fields))

    samza = connection("samza", {"root": root, "root_conn_id": "store"})
    return raised(lambda: find_access("samza_default", samza, root, lambda _: connection(kind, extra)))


@row("stores", "A connection of another store as root_conn_id", "by the connection's test, and by `plan`")
def _(scene: Scene) -> str:
    return _by_connection(scene, "s3://models/samza", "wasb")


@row("stores", "root_conn_id for a root that is on no object store", "by the connection's test, and by `plan`")
def _(scene: Scene) -> str:
    return _by_connection(scene, "/data/samza", "aws")


@row("stores", "A connection that needs a provider which is not installed", "by `plan`")
def _(scene: Scene) -> str:
    return _by_connection(
        scene,
        "s3://models/samza",
        "aws",
        role_arn="arn:aws:iam::1:role/etl",
        assume_role_method="assume_role_with_saml",
    )


@row("stores", "A profile of AWS that the host does not know", "when the root is opened")
def _(scene: Scene) -> str:
    (scene.folder / "credentials").write_text("[etl]\naws_access_key_id = AKIA\naws_secret_access_key = hush\n")
    scene.monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(scene.folder / "credentials"))
    scene.monkeypatch.setenv("AWS_CONFIG_FILE", str(scene.folder / "config"))
    return raised(lambda: open_filesystem("s3://models/samza", {"profile": "elt"}))


@row("stores", "Spark without the client of an object store", "by the push, and by the stage")
def _(scene: Scene) -> str:
    from airflow_samza.spark.lacking_jars import find_lacking

    return str(
        find_lacking(
            "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found",
            "the source of the push of table 'members' (the path s3a://models/members)",
        )
    )
