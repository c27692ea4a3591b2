"""Rows of ``expect=``."""

from __future__ import annotations

from typer.testing import CliRunner

from airflow_samza.cli.app import app as command_line
from airflow_samza.systems.system import SystemBinding
from tests.e2e.bad_input.page import row
from tests.e2e.bad_input.rows_wrong_use import CALL
from tests.e2e.bad_input.scene import APPLICATION, OUT, VIEWS, Scene
from tests.support.runs_here import Here

PLAN = "by `plan`"


def _expect(scene: Scene, expect: str) -> None:
    imported = "from airflow_samza import condition, fresh, not_null, rows, unique"
    output = f'app.output_stream("out", system="lake", format="json", expect={expect})'
    scene.application(f"views = {VIEWS}", imported, f"views.send_to({output})")


@row("call", "expect= that is no list of expectations", CALL)
def _(scene: Scene) -> str:
    _expect(scene, '"dwell_ms >= 0"')
    return scene.plan()


@row("call", "Something in expect= that is no expectation", CALL)
def _(scene: Scene) -> str:
    _expect(scene, "[42]")
    return scene.plan()


@row("call", "An expectation of a column that is not there", CALL)
def _(scene: Scene) -> str:
    _expect(scene, '[not_null("member")]')
    return scene.plan()


@row("call", "Rows dropped by an expectation about all rows", CALL)
def _(scene: Scene) -> str:
    _expect(scene, '[unique("member_id", on_error="drop")]')
    return scene.plan()


@row("call", "on_error= of an expectation that does not exist", CALL)
def _(scene: Scene) -> str:
    _expect(scene, '[not_null("member_id", on_error="ignore")]')
    return scene.plan()


@row("call", "An expectation of the number of rows without a number", CALL)
def _(scene: Scene) -> str:
    _expect(scene, "[rows()]")
    return scene.plan()


@row("call", "An expectation about time of a column that is no time", CALL)
def _(scene: Scene) -> str:
    _expect(scene, '[fresh("country", "2 hours")]')
    return scene.plan()


@row("plan", "A condition in expect= with an unknown column", PLAN)
def _(scene: Scene) -> str:
    _expect(scene, '["dwell >= 0"]')
    scene.views()
    return scene.prepare()


@row("plan", "A condition in expect= that Arrow does not evaluate", PLAN)
def _(scene: Scene) -> str:
    _expect(scene, "[\"rlike(country, 'N.')\"]")
    scene.views()
    return scene.prepare()


@row("stage", "Output that does not meet an expectation", "by the stage")
def _(scene: Scene) -> str:
    _expect(scene, '[unique("country"), "dwell_ms >= 0"]')
    scene.views(*(f'{{"member_id":{number},"country":"NL","dwell_ms":{number - 1}}}' for number in range(3)))
    return scene.run()


@row("call", "An expectation of an input about all of its messages", CALL)
def _(scene: Scene) -> str:
    read = VIEWS.replace("partitions=2", 'partitions=2, expect=[samza.unique("member_id")]')
    scene.application("views = 0", "import airflow_samza as samza", f"{read}.send_to({OUT})")
    return scene.plan()


@row("call", "An expectation of a side input", CALL)
def _(scene: Scene) -> str:
    scene.application(
        'app.side_input("changes", system="log", schema="member_id bigint", key="member_id", expect=["member_id > 0"])'
    )
    return scene.plan()


@row("stage", "Input that does not meet an expectation", "by the stage")
def _(scene: Scene) -> str:
    read = VIEWS.replace("partitions=2", 'partitions=2, expect=["dwell_ms >= 0"]')
    scene.application(f"{read}.send_to({OUT})")
    scene.views('{"member_id":1,"country":"NL","dwell_ms":-1}')
    return scene.run()


PUBLISH = "by `publish` and `SamzaPublishOperator`"


def _wait(scene: Scene, more: str = 'publish="after approval"', views: str = VIEWS) -> Here:
    output = f'app.output_stream("out", system="lake", format="json", {more})'
    scene.application(f"{views}.send_to({output})")
    scene.views()
    return Here(scene.folder / "samza", bindings={"lake": SystemBinding("files", {"root": str(scene.folder / "data")})})


def _decided(scene: Scene, *words: str) -> None:
    place = _wait(scene)
    place.whole(APPLICATION, "run-1")
    options = ["--root", str(place.root), "--system", f"lake=files:{scene.folder / 'data'}"]
    done = CliRunner().invoke(command_line, ["publish", "page-views", "run-1", *words, *options])
    assert done.exit_code == 0, done.output


@row("call", "publish= of an output that does not exist", CALL)
def _(scene: Scene) -> str:
    _wait(scene, 'publish="later"')
    return scene.plan()


@row("call", "An output to a branch that waits for approval", CALL)
def _(scene: Scene) -> str:
    _wait(scene, 'publish="after approval", branch="audit"')
    return scene.plan()


@row("plan", "An output that waits for approval in a continuous run", PLAN)
def _(scene: Scene) -> str:
    _wait(scene, views=VIEWS.replace("partitions=2", "partitions=2, bounded=False"))
    return scene.prepare(mode="continuous")


@row("plan", "An output of Spark that waits for approval", PLAN)
def _(scene: Scene) -> str:
    _wait(scene, 'publish="after approval"')
    scene.application(
        f'{VIEWS}.send_to(app.output_stream("out", system="spark", format="json", publish="after approval"))'
    )
    scene.systems["spark"] = "spark:"
    return scene.prepare()


@row("stage", "Output that is approved and was rejected before", PUBLISH)
def _(scene: Scene) -> str:
    _decided(scene, "--drop")
    return without_user(scene.command("publish", "page-views", "run-1"))


@row("stage", "Output that is rejected and was approved before", PUBLISH)
def _(scene: Scene) -> str:
    _decided(scene)
    return without_user(scene.command("publish", "page-views", "run-1", "--drop"))


@row("stage", "Output that is rejected before its stage has ended", PUBLISH)
def _(scene: Scene) -> str:
    _wait(scene).plan(APPLICATION, "run-1")
    return scene.command("publish", "page-views", "run-1", "--drop")


def without_user(text: str) -> str:
    """Return a text in which no user and host of this machine is named."""
    from airflow_samza.cli.runs_commands import who_asks

    return text.replace(who_asks(), "ann on host")


def _refer(scene: Scene, table: str, columns: str = '"member_id"') -> str:
    schema = 'key="member_id", schema="member_id bigint, tier string"'
    output = f'app.output_stream("out", system="lake", format="json", expect=[foreign_key({columns}, profiles)])'
    scene.application(
        f"views = {VIEWS}",
        "from airflow_samza import foreign_key",
        f'profiles = app.{table}("profiles", {schema})',
        f"views.send_to({output})",
    )
    return scene.plan()


@row("call", "A foreign key to a table that is not there before the first message", CALL)
def _(scene: Scene) -> str:
    return _refer(scene, "local_table")


@row("call", "A foreign key of other columns than the table's key", CALL)
def _(scene: Scene) -> str:
    return _refer(scene, "pushed_table", '["member_id", "country"]')
