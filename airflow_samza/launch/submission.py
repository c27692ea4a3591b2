"""Submission of a stage to its runner: once, however often it is called, and whatever process dies in between."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from airflow_samza.errors import ConfigError, SamzaError, StageError, StageFailed, StageLost
from airflow_samza.launch.bindings import has_old_secrets
from airflow_samza.launch.launcher import ensure_runner
from airflow_samza.launch.log_lines import details_in
from airflow_samza.launch.masters import DEPLOY_MODE_KEY, MASTER_KEY
from airflow_samza.launch.runner_settings import POLL_SECONDS, RunnerSettings
from airflow_samza.launch.spark_settings import FIXED, is_per_job
from airflow_samza.runs.records.folders import read_fixed, write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_code import RunCode
from airflow_samza.runs.stages.stage_runners import RunnerEnd, RunnerFolder, RunnerPlace, StageRequest, enqueue
from airflow_samza.runs.stages.stage_state import (
    CANCELLED,
    FAILED,
    IF_IT_DIES_AGAIN,
    LOST,
    QUEUED,
    RUNNING,
    SUCCEEDED,
    StageHandle,
    StageStatus,
    as_lost,
    ask_to_cancel,
    can_finish,
    cancelled,
    how_lost,
    is_committed,
    newest_request,
    runner_of,
    stage_status,
    superseded_by,
)
from airflow_samza.secrecy import shown
from airflow_samza.systems.capabilities import Delivery, after_a_retry
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.object_store import requests
from airflow_samza.systems.filesystems.pace import Looks


def submit(
    files: Filesystem,
    handle: StageHandle,
    settings: Callable[[bool], tuple[RunnerSettings, RunCode]],
    spark_conf: Mapping[str, str],
    reopen: Callable[[], None] | None = None,
) -> StageHandle:
    """Re-attach to the stage's attempt if it lives or has succeeded, else starts a new one.

    The handle of that attempt.

    ``settings`` is called only when a runner may have to be started, after ``reopen``: a run that is submitted to is
    open again. It gets whether the stage is submitted for the first time under its plan, and so runs the run's code;
    a retry and a clear bring the present one. Of the code without a reference the application is as the plan says.
    """
    generations = supersede_older(files, handle)
    reopen = reopen or (lambda: files.delete(handle.run.closed))
    if handle.generation not in generations:  # nothing of it was ever written
        is_first = not any(generation.plan == handle.generation.plan for generation in generations)
        return _submit_attempt(files, handle, StageStatus(LOST), settings, spark_conf, reopen, is_first=is_first)
    status = stage_status(files, replace(handle, attempt=0))
    submitted = replace(handle, attempt=status.attempt)
    if status.state == SUCCEEDED:
        return submitted
    if status.state in (QUEUED, RUNNING) and not _is_cancelled(files, submitted):
        runner = runner_of(files, handle, status.attempt)
        heard = runner is not None and runner.gives_sign(files)
        status = stage_status(files, replace(handle, attempt=0))  # it may have ended it meanwhile
        if heard and not status.is_final:
            _enqueue_request(files, submitted)
            return submitted
        status = as_lost(files, handle, status, runner) if not status.is_final else status
        if status.state == SUCCEEDED:
            return submitted
    if can_finish(files, handle.folder):  # everything is staged: no Spark is needed, ``finish`` continues from here
        before = newest_request(files, handle.folder) or StageRequest("", "", 0)
        same = RunCode(reference=before.reference, digests={handle.stage_id: before.code})
        code = same if is_committed(files, handle.folder) else settings(False)[1]
        if before.code in ("", code.digests.get(handle.stage_id, "")):
            submitted = replace(handle, attempt=status.attempt + 1)
            write_once(
                files, handle.folder.attempt(submitted.attempt, "request"), _request(submitted, spark_conf, code)
            )
            return submitted
    files.delete(handle.folder.abort)
    return _submit_attempt(files, handle, status, settings, spark_conf, reopen)


def supersede_older(files: Filesystem, handle: StageHandle) -> list[Generation]:
    """Cancel older generations that still run; a newer one means that this one comes too late.

    Returns all that were ever submitted.
    """
    generations = handle.run.generations(files, handle.stage_id)
    for generation in generations:
        if generation > handle.generation:
            raise StageError(
                superseded_by(handle, generation),
                hint="Submit the newest generation, or a newer one.",
                stage=handle.stage_id,
                run=handle.run_id,
                generation=str(handle.generation),
            )
        older = replace(handle, generation=generation)
        if generation < handle.generation and not stage_status(files, older).is_final:
            ask_to_cancel(files, older)
    return generations


def stage_error(
    handle: StageHandle,
    status: StageStatus,
    deliveries: Callable[[], Mapping[str, Delivery]],
    why_ended: Callable[[str], str],
) -> SamzaError:
    """Return the error for a stage that has no result.

    ``deliveries`` returns those of all that the stage reaches: a hint to try again promises no more than they do.
    ``why_ended`` returns why a driver on this host has ended, as the rest of a sentence, where anybody else knows.
    """
    about = {"stage": handle.stage_id, "run": handle.run_id, "generation": str(handle.generation), "log": status.log}
    if status.state == FAILED and status.error is not None:
        error = SamzaError.from_dict(dict(status.error))
        error.facts = {**about, **error.facts}
        if isinstance(error, StageLost):
            why = why_ended(status.runner.partition(",")[0])
            error.sentence = f"{error.sentence.removesuffix('.')}: {why}." if why else error.sentence
            kept = after_a_retry(deliveries())
            error.hint = f"{error.hint} {kept[0].upper()}{kept[1:]}.".strip()
        return error
    if status.state == CANCELLED:
        return cancelled(handle, **about)
    if status.state == LOST and not status.attempt:
        return StageLost(f"The stage {handle.stage_id} has not been submitted.", hint="Submit it first.", **about)
    staged = f"{status.tasks_done} of {status.tasks} tasks had staged their output"
    if status.state == LOST:
        why = why_ended(status.runner.partition(",")[0])
        is_frozen = status.silent_since is not None
        before = "another runner takes its place, and if the frozen one wakes up, it ends; " if is_frozen else ""
        advice = f" {IF_IT_DIES_AGAIN}" if status.runner and not why and not is_frozen else ""
        return StageLost(
            f"{how_lost(handle.stage_id, status, why)}; {staged}.",
            hint=f"Try again: {before}{after_a_retry(deliveries())}.{advice}",
            **about,
        )
    if status.state == FAILED:
        return StageFailed(f"The stage {handle.stage_id} failed.", hint=details_in(status.log), **about)
    return StageError(
        f"The stage {handle.stage_id} is not finished: it is {status}.", hint="Wait for it first.", **about
    )


def checked_conf(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the Spark settings of a user; reject those on which this package relies."""
    for key, value in conf.items():
        if key in (MASTER_KEY, DEPLOY_MODE_KEY):
            raise ConfigError(
                f"The Spark setting {key} is {value!r}, and the master is not chosen by a Spark setting.",
                hint="Name it in the Spark connection (host, deploy-mode), or on the command line with --master and "
                "--deploy-mode.",
                key=key,
                value=str(value),
            )
        if not key.startswith("spark."):
            raise ConfigError(
                f"The Spark setting {key} does not begin with 'spark.', and Spark would ignore it silently.",
                hint=f"Write spark.{key}, or spark.hadoop.{key} for a setting of Hadoop's.",
                key=key,
                value=shown({key: value})[key],
            )
        if key in FIXED and str(value) != FIXED[key]:
            raise ConfigError(
                f"The Spark setting {key} is {value!r}, and stages run correctly only with {FIXED[key]!r}.",
                hint="Leave it out.",
                key=key,
                value=str(value),
            )
    return {str(key): str(value) for key, value in conf.items()}


def _submit_attempt(
    files: Filesystem,
    handle: StageHandle,
    status: StageStatus,
    settings: Callable[[bool], tuple[RunnerSettings, RunCode]],
    spark_conf: Mapping[str, str],
    reopen: Callable[[], None],
    *,
    is_first: bool = False,
) -> StageHandle:
    folder = handle.folder
    submitted = replace(handle, attempt=status.attempt + 1)
    reopen()
    runner_settings, code = settings(is_first)
    request = _request(submitted, spark_conf, code)
    if status.state == FAILED:
        _part_with_old_secrets(files, submitted, runner_settings)
    while True:
        runner = ensure_runner(files, handle.run, runner_settings)
        request = replace(request, attempt=submitted.attempt, runner=RunnerPlace(runner.key, runner.number))
        if not write_once(files, folder.attempt(submitted.attempt, "request"), request):
            _enqueue_request(files, submitted)  # another process submitted the same attempt at the same moment
            return submitted
        enqueue(files, runner, request)
        if runner.accepts(files) or _was_taken(files, submitted, runner):
            return submitted
        submitted = replace(submitted, attempt=submitted.attempt + 1)


def _request(handle: StageHandle, spark_conf: Mapping[str, str], code: RunCode) -> StageRequest:
    return StageRequest(
        stage=handle.stage_id,
        generation=str(handle.generation),
        attempt=handle.attempt,
        requested_at=time.time(),
        spark_conf={key: value for key, value in spark_conf.items() if is_per_job(key)},
        requests=requests.take(),
        reference=code.reference,
        code=code.digests.get(handle.stage_id, ""),
    )


def _part_with_old_secrets(files: Filesystem, handle: StageHandle, runner_settings: RunnerSettings) -> None:
    """Close, after a failure, a runner that was given secrets: the next one gets those of now.

    The failure may come from a secret that was changed.
    """
    if not has_old_secrets(runner_settings.bindings):
        return
    request = read_fixed(files, handle.folder.attempt(handle.attempt - 1, "request"), StageRequest)
    if request is not None and request.runner is not None:
        runner = RunnerFolder(handle.run, request.runner.key, request.runner.number)
        write_once(
            files, runner.closed, RunnerEnd("a stage failed; its successor gets the secrets of today", time.time())
        )


def _is_cancelled(files: Filesystem, handle: StageHandle) -> bool:
    return files.exists(handle.folder.attempt(handle.attempt, "cancel"))


def _was_taken(files: Filesystem, handle: StageHandle, runner: RunnerFolder) -> bool:
    """Return whether a runner that was closing when it was asked still took the request."""
    status_file, looks = handle.folder.attempt(handle.attempt, "status"), Looks(files.pace)
    while runner.is_alive(files):
        if files.exists(status_file):
            return True
        time.sleep(looks.pause(POLL_SECONDS))
    return files.exists(status_file)


def _enqueue_request(files: Filesystem, handle: StageHandle) -> None:
    """Put a request into its runner's queue in case its submitter died before it did; one that is there stays."""
    request = read_fixed(files, handle.folder.attempt(handle.attempt, "request"), StageRequest)
    if request is not None and request.runner is not None:
        enqueue(files, RunnerFolder(handle.run, request.runner.key, request.runner.number), request)
