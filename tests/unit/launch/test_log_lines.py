from __future__ import annotations

import pytest

from airflow_samza.launch.log_lines import most_informative_line

FAILED = 'Exception in thread "main" org.apache.spark.SparkException: Application application_17_0001 finished with failed status'
REPORT = """\
26/11/22 22:19:11 ERROR Client: Application diagnostics message: Application application_17_0001 failed 1 times (global \
limit =2; local limit is =1) due to AM Container for appattempt_17_0001_000001 exited with  exitCode: -1000
Failing this attempt.Diagnostics: [2026-11-22 22:19:11.643]No space available in any of the local directories on host/10.0.0.1
For more detailed output, check the application tracking page: http://host:42941/cluster/app/application_17_0001
. Failing the application."""
ENDED = "26/11/22 22:19:11 ERROR Client: Application diagnostics message: User application exited with status 1"


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (f"{REPORT}\n{FAILED}", "No space available in any of the local directories on host/10.0.0.1"),
        (f"{ENDED}\n{FAILED}", "User application exited with status 1"),
        (FAILED, "org.apache.spark.SparkException: Application application_17_0001 finished with failed status"),
    ],
)
def test_of_a_submission_to_yarn_the_reason_counts_and_not_that_it_has_failed(log: str, reason: str) -> None:
    frames = "\tat org.apache.spark.deploy.yarn.Client.run(Client.scala:1403)"
    assert most_informative_line([*log.splitlines(), frames]) == reason
