"""Answers of stores that no server of the tests gives: from their documentation, in the form in which obstore shows them."""

from __future__ import annotations

import pytest
from obstore.exceptions import GenericError, PermissionDeniedError

from airflow_samza.errors import StorageUnavailable, TopicError
from airflow_samza.systems.filesystems.object_store.access import Access
from airflow_samza.systems.filesystems.object_store.address import parse_address
from airflow_samza.systems.filesystems.object_store.rejections import error_of, rejection_of

SENT = "Generic store error: Error performing GET https://acme.blob.core.windows.net/models/a in 2ms - "
AZURE = (
    "<Error><Code>AuthenticationFailed</Code><Message>Server failed to authenticate the request.\nRequestId:1</Message>"
)


def error(text: str, kind: type[Exception] = GenericError) -> Exception:
    address, _ = parse_address("abfss://models@acme.dfs.core.windows.net/samza")
    return error_of(rejection_of(kind(f"{SENT}{text}\n\nDebug source:\n…")), "read", "a", address, Access())


@pytest.mark.parametrize(
    ("detail", "hint"),
    [
        ("Request date header too old: 'Mon, 23 Nov 2026 10:00:00 GMT'", "The clock of this host differs"),
        (
            "Signature not valid in the specified time frame: Start [x] - Expiry [y] - Current [z]",
            "Give fresh credentials",
        ),
        ("Signature did not match. String to sign used was r", "The store does not accept the credentials"),
    ],
)
def test_azure_says_in_a_detail_what_it_did_not_accept(detail: str, hint: str) -> None:
    status = "Server returned non-2xx status code: 403 Forbidden: "
    found = error(
        f"{status}{AZURE}<AuthenticationErrorDetail>{detail}</AuthenticationErrorDetail></Error>", PermissionDeniedError
    )
    assert isinstance(found, TopicError)
    assert found.sentence.endswith(f": {detail} (AuthenticationFailed).")
    assert found.hint.startswith(hint)


def test_google_answers_in_json() -> None:
    text = (
        'Server returned non-2xx status code: 429 Too Many Requests: {"error": {"code": 429, "message": "Rate limit"}}'
    )
    found = error(text)
    assert isinstance(found, StorageUnavailable)
    assert ": Rate limit." in found.sentence


def test_an_answer_without_a_text_is_named_by_its_status() -> None:
    found = error("Server returned non-2xx status code: 403 Forbidden: ", PermissionDeniedError)
    assert isinstance(found, TopicError)
    assert found.sentence.endswith(": HTTP status 403.")
    assert found.facts["denied"]


def test_a_failure_of_the_client_itself_is_reported_by_its_last_words() -> None:
    found = error_of(
        rejection_of(GenericError("Generic S3 error: Unable to read the token file: No such file or directory")),
        "read",
        "a",
        parse_address("s3://models/a")[0],
        Access(),
    )
    assert isinstance(found, TopicError)
    assert "No such file or directory (GenericError)" in found.sentence
    assert not found.retryable
