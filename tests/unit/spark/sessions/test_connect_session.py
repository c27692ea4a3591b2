"""Errors of a Spark Connect server: the words of gRPC reach the sentence, whichever exception carries them."""

from __future__ import annotations

import pytest

from airflow_samza.spark.sessions.connect_session import _said_first

GRPC = """<_InactiveRpcError of RPC that terminated with:
\tstatus = StatusCode.UNAVAILABLE
\tdetails = "Ssl handshake failed: CERTIFICATE_VERIFY_FAILED: self signed certificate"
\tdebug_error_string = "UNKNOWN:Error received from peer"
>"""


class Rejected(Exception):
    """Stands in for an error of gRPC's own."""

    def details(self) -> str:
        return "the server is on its way down\nand says more"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Rejected(GRPC), "the server is on its way down"),
        (RuntimeError(GRPC), "Ssl handshake failed: CERTIFICATE_VERIFY_FAILED: self signed certificate"),
        (RuntimeError("\n  it broke\nhere"), "it broke"),
        (RuntimeError(), "RuntimeError"),
    ],
    ids=["gRPC's own", "inside of another", "another", "without words"],
)
def test_the_first_line_of_an_error_is_what_the_server_has_said(error: Exception, said: str) -> None:
    assert _said_first(error) == said
