"""Results of an application's description: the two forms, the value, determinism, cost."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from airflow_samza import StreamApplication, bounded_delay, count, stream_application, tumbling
from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.descriptors import StreamRole, TableKind
from airflow_samza.application.operator_specs import BroadcastSpec, InputOperatorSpec, PartitionBySpec, TableJoinSpec
from airflow_samza.errors import BadId, ConfigError, InvalidApplication, UnknownName


@dataclass(frozen=True)
class PageView:
    member_id: int
    country: str
    dwell_ms: int
    at: datetime


@dataclass(frozen=True)
class Profile:
    member_id: int
    tier: str


@dataclass(frozen=True)
class Enriched(PageView):
    tier: str | None


def enrich(view: PageView, profile: Profile | None) -> Enriched:
    return Enriched(**vars(view), tier=profile.tier if profile else None)


@stream_application("page-views")
def page_views(app: Any) -> None:
    """Views per country and minute."""
    views = app.input_stream(
        "page-views",
        system="logs",
        schema=PageView,
        timestamp="at",
        max_delay="5 minutes",
        path="{data_interval_start:%Y/%m/%d/%H}",
        partitions=16,
    )
    profiles = app.pushed_table("profiles", key="member_id", schema=Profile, partitions=16)
    (
        views.where("dwell_ms > 1000")
        .partition_by("member_id", id="by-member")
        .join(profiles, enrich, how="left", id="with-profile")
        .partition_by("country", id="by-country")
        .window(tumbling("1 minute"), key="country", views=count(), id="per-minute")
        .send_to(app.output_stream("views-per-country", system="warehouse"))
    )


class PageViews(StreamApplication):
    name = "page-views"

    def describe(self, app: Any) -> None:
        page_views(app)


def shape(spec: ApplicationSpec) -> list[object]:
    return [
        *(repr(operator).partition("location=")[0].partition("function=")[0] for operator in spec.operators),
        *(tuple(op.op_id for op in operator.inputs) for operator in spec.operators),
        spec.inputs,
        spec.outputs,
        spec.intermediates,
        spec.side_inputs,
        spec.tables,
    ]


def test_the_example_of_the_design() -> None:
    spec = page_views.spec()
    assert [operator.op_id for operator in spec.operators] == [
        "page-views-1-input-page-views",
        "page-views-1-where-0",
        "page-views-1-partition_by-by-member",
        "page-views-1-input-by-member",
        "page-views-1-join-with-profile",
        "page-views-1-partition_by-by-country",
        "page-views-1-input-by-country",
        "page-views-1-window-per-minute",
        "page-views-1-send_to-5",
    ]
    assert list(spec.inputs) == ["page-views"]
    assert list(spec.outputs) == ["views-per-country"]
    assert list(spec.intermediates) == ["by-member", "by-country"]
    assert list(spec.side_inputs) == ["profiles-push"]
    table = spec.table("profiles")
    assert (table.kind, table.key, table.partitions, table.side_inputs) == (
        TableKind.PUSHED,
        ("member_id",),
        16,
        ("profiles-push",),
    )
    push = spec.side_inputs["profiles-push"]
    assert (push.role, push.key, push.partitions, push.schema) == (
        StreamRole.SIDE_INPUT,
        ("member_id",),
        16,
        table.schema,
    )
    join = spec.operator("page-views-1-join-with-profile")
    assert isinstance(join, TableJoinSpec)
    assert (join.table, join.key, join.how, join.function) == (table, ("member_id",), "left", enrich)
    assert join.schema is not None
    assert join.schema.python_class is Enriched
    window = spec.operator("page-views-1-window-per-minute")
    assert window.schema is not None
    assert window.schema.ddl() == (
        "country string not null, window_start timestamp not null, window_end timestamp not null, views bigint not null"
    )
    views = spec.inputs["page-views"]
    assert (views.watermarks, views.bounded, views.key) == (bounded_delay("5 minutes"), True, ())


def test_both_forms_give_the_same_application() -> None:
    assert shape(PageViews().spec()) == shape(page_views.spec())


def test_describing_twice_gives_the_same_value() -> None:
    assert shape(page_views.spec()) == shape(page_views.spec())


def test_edges_lead_forward_and_stop_at_partition_by() -> None:
    spec = page_views.spec()
    source = spec.input_operator("page-views")
    path = [source.op]
    operator = spec.next_operators(source)[0]
    while True:
        path.append(operator.op)
        following = spec.next_operators(operator)
        if not following:
            break
        operator = following[0]
    assert path == ["input", "where", "partition_by"]
    assert isinstance(operator, PartitionBySpec)
    assert operator.stream is spec.intermediates["by-member"]
    assert spec.input_operator("by-member").stream is operator.stream


def test_operators_by_their_ids_are_in_the_order_of_declaration() -> None:
    spec = page_views.spec()
    ids = [operator.op_id for operator in spec.operators]
    assert spec.operators_of([*reversed(ids[1:4]), "of another application"]) == list(spec.operators[1:4])


def test_every_operator_knows_its_line() -> None:
    lines = [operator.location.line for operator in page_views.spec().operators if operator.location is not None]
    assert len(lines) == 9
    assert all(operator.location and operator.location.file == __file__ for operator in page_views.spec().operators)


def test_the_value_survives_pickling() -> None:
    spec = page_views.spec()
    again = pickle.loads(pickle.dumps(spec))
    assert shape(again) == shape(spec)
    assert [op.op_id for op in again.next_operators(again.operators[0])] == ["page-views-1-where-0"]


def chain(app: Any) -> None:
    stream = app.input_stream("in", schema=PageView)
    for _ in range(3333):
        stream = stream.where("dwell_ms > 1000").map(same).filter(bool)
    stream.send_to(app.output_stream("out"))


def same(view: PageView) -> PageView:
    return view


def test_a_chain_longer_than_the_recursion_limit_is_described_shown_and_pickled() -> None:
    spec = stream_application("long")(chain).spec()
    assert len(spec.operators) == 10_001
    assert len(repr(spec.operators[-1])) < 2000
    assert len(pickle.loads(pickle.dumps(spec)).operators) == 10_001


def test_importing_the_api_loads_the_standard_library_only() -> None:
    code = (
        "import sys, airflow_samza; from airflow_samza import stream_application, count, StreamTask, load_application\n"
        "import airflow_samza.application.declarations.side_inputs, airflow_samza.config\n"
        "stream_application('a')(lambda app: app.input_stream('i', schema='id int', key='id')"
        ".partition_by('id', id='p').aggregate('id', n=count(), id='n').send_to(app.output_stream('o'))).spec()\n"
        "print(*sorted({m.partition('.')[0] for m in sys.modules} - set(sys.stdlib_module_names)))"
    )
    bare = "import sys; print(*{m.partition('.')[0] for m in sys.modules})"
    before, after = (
        subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, check=True).stdout.split()
        for run in (bare, code)
    )
    assert {name for name in set(after) - set(before) if not name.startswith("_")} == {"airflow_samza"}


def test_the_name_is_the_decorators_never_the_functions() -> None:
    def anything(app: Any) -> None:
        app.input_stream("a")

    assert stream_application("views", app_id="eu")(anything).spec().operators[0].op_id == "views-eu-input-a"


@pytest.mark.parametrize(
    ("use", "sentence"),
    [
        (lambda: stream_application(lambda app: None), "without a name"),  # type: ignore[arg-type]
        (lambda: stream_application("my app"), "'my app' has characters"),
        (lambda: stream_application(""), "needs an id"),
        (lambda: stream_application("a", app_id="1.0"), "'1.0' has characters"),
        (lambda: stream_application("a")(lambda: None), "with 1 value"),  # type: ignore[misc,arg-type]
        (lambda: stream_application("a")("text"), "takes a Python callable"),  # type: ignore[arg-type]
    ],
)
def test_rejects_wrong_decorations(use: Any, sentence: str) -> None:
    with pytest.raises(InvalidApplication, match=sentence):
        use()


def test_rejects_a_describing_function_that_would_never_run() -> None:
    async def described_later(app: Any) -> None:
        app.input_stream("a")

    def described_lazily(app: Any) -> Any:
        yield app.input_stream("a")

    wrong: list[tuple[Any, str]] = [(described_later, "async"), (described_lazily, "yields")]
    for function, sentence in wrong:
        with pytest.raises(InvalidApplication, match=sentence):
            stream_application("a")(function)


def test_rejects_classes_without_name_or_describe() -> None:
    class Nameless(StreamApplication):
        def describe(self, app: Any) -> None:
            app.input_stream("a")

    class Silent(StreamApplication):
        name = "silent"

    with pytest.raises(BadId, match="needs an id"):
        Nameless().spec()
    with pytest.raises(InvalidApplication, match="says nothing"):
        Silent().spec()


def test_configuration_is_seen_by_the_description_and_kept() -> None:
    seen: list[dict[str, str]] = []

    @stream_application("a", config={"x": "1", "y": "2"})
    def application(app: Any) -> None:
        seen.append(dict(app.config))
        app.input_stream("a")

    assert application.spec({"y": "3"}).config == {"x": "1", "y": "3"}
    assert seen == [{"x": "1", "y": "3"}]
    with pytest.raises(ConfigError, match="'y' has the value"):
        application.spec({"y": ["3"]})  # type: ignore[dict-item]


def test_unknown_names_are_answered_with_the_known_ones() -> None:
    spec = page_views.spec()
    for ask in (spec.operator, spec.stream, spec.table, spec.input_operator):
        with pytest.raises(UnknownName, match="'nothing'") as caught:
            ask("nothing")
        assert "profiles" in caught.value.hint or "page-views" in caught.value.hint
    assert spec.stream("profiles-push").role is StreamRole.SIDE_INPUT


def test_adding_a_map_or_an_input_renames_no_topic_and_no_state() -> None:
    def described(more: bool) -> set[str]:
        @stream_application("a")
        def application(app: Any) -> None:
            if more:
                app.input_stream("other", schema="id int").map(lambda message: message).sink(print)
            stream = app.input_stream("in", schema="id int")
            stream = stream.map(lambda message: message) if more else stream
            stream.partition_by("id", id="by-id").aggregate("id", n=count(), id="per-id").send_to(
                app.output_stream("out")
            )

        return {
            operator.op_id
            for operator in application.spec().operators
            if operator.op in ("partition_by", "aggregate", "input")
        }

    assert described(False) <= described(True)


def test_a_number_as_id_that_meets_an_automatic_one_is_rejected() -> None:
    def describe(app: Any) -> None:
        stream = app.input_stream("a").map(lambda message: message, id="1")
        stream.map(lambda message: message)

    with pytest.raises(InvalidApplication, match="a-1-map-1") as caught:
        stream_application("a")(describe).spec()
    assert "not a number" in caught.value.hint


def test_renaming_is_kept_where_a_topic_or_state_hangs_on_the_id() -> None:
    @stream_application("a")
    def application(app: Any) -> None:
        stream = app.input_stream("in", schema=PageView, timestamp="at", key="member_id", renamed_from="old-in")
        table = app.local_table("t", key="member_id", renamed_from="old-t")
        stream.send_to(table)
        stream.partition_by("country", id="p", renamed_from="old-p").window(
            tumbling(5), key="country", n=count(), id="w", renamed_from="old-w"
        ).sink(print)
        stream.aggregate("member_id", n=count(), id="g", renamed_from="old-g").broadcast(
            id="b", renamed_from="old-b"
        ).sink(print)
        stream.join(table, lambda view, row: view, id="j", renamed_from="old-j").sink(print)

    spec = application.spec()
    assert spec.tables["t"].renamed_from == "old-t"
    renamed = {op.op: op.renamed_from for op in spec.operators if op.renamed_from is not None}
    assert renamed == {
        "input": "old-in",
        "partition_by": "old-p",
        "window": "old-w",
        "aggregate": "old-g",
        "broadcast": "old-b",
        "join": "old-j",
    }


def test_a_broadcast_stream_has_one_partition() -> None:
    spec = stream_application("a")(lambda app: app.input_stream("in").broadcast(id="all")).spec()
    assert (spec.intermediates["all"].partitions, spec.intermediates["all"].broadcast) == (1, True)
    assert isinstance(spec.operators[1], BroadcastSpec)
    assert isinstance(spec.operators[2], InputOperatorSpec)


def test_shared_streams_and_dataframes() -> None:
    def frames(spark: Any) -> Any:
        return spark.range(3)

    @stream_application("a")
    def application(app: Any) -> None:
        app.shared_stream("orders", schema="id bigint", key="id", partitions=4)
        app.output_stream("results", shared=True)
        app.from_dataframe(frames, id="models", schema="id bigint", partitions=2)

    spec = application.spec()
    assert (spec.inputs["orders"].shared, spec.inputs["orders"].bounded) == (True, False)
    assert spec.outputs["results"].shared
    assert (spec.inputs["models"].reader, spec.inputs["models"].bounded) == (frames, True)
