"""The check of a root: it names what is not permitted, a bucket that is missing, and a store that decides nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_samza.errors import ConfigError, StorageUnavailable, TopicError
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.filesystems.object_store.filesystem import ObjectStoreFilesystem, open_object_store
from airflow_samza.systems.filesystems.object_store.probe import check_store
from demo.store_servers import BUCKET, S3Server
from tests.support.faulty_store import Asked, FaultyStore, at


@pytest.fixture
def faulty(s3: S3Server) -> Iterator[FaultyStore]:
    with FaultyStore(s3.endpoint) as found:
        yield found


@pytest.fixture
def files(faulty: FaultyStore, tmp_path: Path) -> ObjectStoreFilesystem:
    url = f"s3://{BUCKET}/probe/{tmp_path.name}"
    return open_object_store(url, {"endpoint": faulty.endpoint}, patience=0.2)


def test_a_root_on_a_good_store_passes_and_nothing_is_left_there(files: ObjectStoreFilesystem) -> None:
    assert check_store(files) == ()
    assert files.client.below(files.key(".")) == ()


def test_a_root_elsewhere_passes_unchecked(tmp_path: Path) -> None:
    assert check_store(LocalFilesystem(tmp_path)) == ()


@pytest.mark.parametrize(
    ("methods", "said", "granted"),
    [
        ({"PUT"}, "create", "s3:PutObject"),
        ({"HEAD"}, "read", "s3:GetObject"),
        ({"GET"}, "list", "s3:ListBucket"),
        ({"POST"}, "delete", "s3:DeleteObject"),
        (
            {"PUT", "GET", "HEAD", "POST"},
            "create, read, list and delete",
            "s3:PutObject, s3:GetObject, s3:ListBucket and s3:DeleteObject",
        ),
    ],
)
def test_what_is_not_permitted_is_named(
    faulty: FaultyStore, files: ObjectStoreFilesystem, methods: set[str], said: str, granted: str
) -> None:
    faulty.fault = lambda asked: "denied" if asked.method in methods else None
    with pytest.raises(TopicError) as rejected:
        check_store(files)
    assert rejected.value.sentence.startswith(
        f"The root {files.root} does not let the credentials of the environment {said} objects: "
    )
    assert f"Grant {granted} on the bucket '{BUCKET}'" in rejected.value.hint


@pytest.mark.parametrize("fault", ["unconditional", "lacking"])
def test_a_store_without_conditional_create_is_rejected_with_its_name(
    faulty: FaultyStore, files: ObjectStoreFilesystem, fault: str
) -> None:
    faulty.fault = lambda asked: fault if asked.conditional else None
    with pytest.raises(ConfigError, match="has no conditional create") as rejected:
        check_store(files)
    assert faulty.endpoint in rejected.value.sentence
    assert files.client.below(files.key(".")) == ()


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        ("skewed", TopicError, "RequestTimeTooSkewed"),
        ("unknown", TopicError, "InvalidAccessKeyId"),
        ("slow", StorageUnavailable, "SlowDown"),
    ],
)
def test_any_other_rejection_is_reported_as_it_is(
    faulty: FaultyStore, files: ObjectStoreFilesystem, fault: str, kind: type[TopicError], said: str
) -> None:
    faulty.fault = at(fault)
    with pytest.raises(kind, match=said):
        check_store(files)


def test_a_missing_bucket_is_named(s3: S3Server) -> None:
    with pytest.raises(TopicError, match=r"there is no bucket 'nobody-made-this' \(NoSuchBucket\)"):
        check_store(open_object_store("s3://nobody-made-this/x"))


def test_a_bucket_that_keeps_every_version_brings_a_warning(s3: S3Server) -> None:
    s3.make_bucket("keeps-versions", versions=True)
    (warning,) = check_store(open_object_store("s3://keeps-versions/x"))
    assert warning.startswith("The bucket 'keeps-versions' keeps every version of its objects")


def test_the_probe_of_a_root_asks_few_requests(faulty: FaultyStore, files: ObjectStoreFilesystem) -> None:
    check_store(files)
    assert len(faulty.asked) == 7
    assert all(isinstance(asked, Asked) for asked in faulty.asked)
