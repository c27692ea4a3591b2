import { type ReactElement, useMemo } from "react";
import { airflowRun, runPath } from "../address";
import { type Schemas, api } from "../api/client";
import { count, counted } from "../format";
import { Answered, Empty, Note } from "../parts/answers";
import { Facts, Section } from "../parts/facts";
import { Icon } from "../parts/icons";
import { Outside } from "../parts/links";
import { Interval, Moment } from "../parts/moment";
import { Segments } from "../parts/segments";
import { type Column, Table } from "../parts/table";
import type { Remark } from "../plan/figures";
import { Graph } from "../plan/graph";
import { goTo, useRoute } from "../route";
import { Calendar } from "./calendar";

type DataMap = Schemas["DataMap"];
type Data = Schemas["MapData"];
type Application = Schemas["MapApplication"];

/** Up to so many things the map begins as a graph, else as a table. */
const FEW = 120;

/** The map over all Dags: which applications write and read what, and how fresh it is. */
export function MapView(): ReactElement {
  const found = api.useQuery("get", "/api/map", {}, { staleTime: 60_000 });
  return (
    <>
      <header>
        <div className="title">
          <h1>Map of data</h1>
        </div>
        <p className="subtitle">Streams, tables and folders, with the Dags that write and read them, of those that you may read</p>
      </header>
      <Answered query={found} loading="Loading the map.">
        {(map) => (map.applications.length === 0 ? <Empty>{map.note}</Empty> : <Shown map={map} />)}
      </Answered>
    </>
  );
}

function Shown({ map }: { map: DataMap }): ReactElement {
  const { choices } = useRoute();
  const shape = choices.as ?? (map.data.length <= FEW ? "graph" : "table");
  const sought = map.data.find((data) => data.streams.includes(choices.stream ?? ""))?.node;
  const known = [...map.data, ...map.applications].some((one) => one.node === choices.node);
  const chosen = known ? (choices.node ?? null) : (sought ?? null);
  const choose = (node: string | null): void => goTo(null, { as: choices.as, node }, { replace: true });
  const plan = useMemo(() => asPlan(map), [map]);
  const remarks = useMemo(() => remarksOf(map), [map]);
  return (
    <div className="view">
      {map.note ? <Note>{map.note}</Note> : null}
      <div className="toolbar">
        <Segments
          label="Show the map as"
          options={[
            ["graph", "Graph"],
            ["table", "Table"],
          ]}
          value={shape}
          choose={(as) => goTo(null, { as, node: chosen }, { replace: true })}
        />
        <span className="quiet size">
          {counted(map.applications.length, "application")}, {counted(map.data.length, "stream, table or folder", "streams, tables and folders")}
        </span>
      </div>
      <div className={chosen ? "beside" : undefined}>
        <div className="main">
          {shape === "graph" ? (
            <Graph
              plan={plan}
              level="stage"
              direction="RIGHT"
              remarks={remarks}
              traffic={NOTHING}
              chosen={chosen}
              choose={choose}
            />
          ) : (
            <Table label="Data" rows={map.data} rowKey={(data) => data.node} chosen={chosen} empty="" columns={columnsOf(map, choose)} tall={640} />
          )}
        </div>
        {chosen ? <Chosen map={map} node={chosen} choose={choose} /> : null}
      </div>
    </div>
  );
}

const NOTHING: ReadonlyMap<string, never> = new Map<string, never>();

/** Return a map in the shape of a plan, which the graph draws: an application as a stage, data as a stream. */
function asPlan(map: DataMap): Schemas["Plan"] {
  const edge = (source: string, target: string) => ({ source, target, level: "stage", kind: "flow" }) as const;
  return {
    run: "map",
    generation: 0,
    fingerprint: map.applications.map((one) => [one.dag_id, one.plan_task, one.reads, one.writes].join()).join(";"),
    stages: map.applications.map((one) => ({ node: one.node, stage_name: one.dag_id, operators: [] })),
    streams: map.data.map((data) => ({ node: data.node, stream_id: shortName(data) })),
    operators: [],
    tables: [],
    edges: map.applications.flatMap((one) => [
      ...one.reads.map((node) => edge(node, one.node)),
      ...one.writes.map((node) => edge(one.node, node)),
    ]),
  } as unknown as Schemas["Plan"];
}

const shortName = (data: Data): string => data.name.split("/").filter(Boolean).slice(-2).join("/") || data.name;

const freshness = (data: Data): string =>
  data.fresh === null ? "" : (data.fresh.interval?.[1] ?? new Date(data.fresh.at * 1000).toISOString()).slice(0, 16).replace("T", " ");

function remarksOf(map: DataMap): Map<string, Remark> {
  return new Map([
    ...map.applications.map((one): [string, Remark] => [one.node, { line: one.application }]),
    ...map.data.map((data): [string, Remark] => [
      data.node,
      { line: data.fresh === null ? (data.kind ?? "") : `until ${freshness(data).replace(" 00:00", "")}`, doc: data.uri },
    ]),
  ]);
}

const users = (map: DataMap, data: Data, which: "reads" | "writes"): Application[] =>
  map.applications.filter((one) => one[which].includes(data.node));

const dags = (map: DataMap, data: Data, which: "reads" | "writes"): string =>
  [...new Set([...users(map, data, which).map((one) => one.dag_id), ...(which === "reads" ? data.readers : data.writers)])].join(", ");

const columnsOf = (map: DataMap, choose: (node: string) => void): readonly Column<Data>[] => [
  {
    id: "data",
    name: "Stream, table or folder",
    width: 260,
    sort: (data) => data.name,
    show: (data) => (
      <button type="button" className="link" title={data.name} onClick={() => choose(data.node)}>
        {shortName(data)}
      </button>
    ),
  },
  { id: "kind", name: "Kind", width: 90, sort: (data) => data.kind, show: (data) => data.kind ?? "" },
  { id: "writers", name: "Written by", width: 220, sort: (data) => dags(map, data, "writes"), show: (data) => dags(map, data, "writes") },
  { id: "readers", name: "Read by", width: 220, sort: (data) => dags(map, data, "reads"), show: (data) => dags(map, data, "reads") },
  {
    id: "fresh",
    name: "Last success",
    width: 200,
    sort: (data) => data.fresh?.at ?? null,
    show: (data) => (data.fresh ? <Moment at={data.fresh.at} ago /> : ""),
  },
  { id: "until", name: "Until (UTC)", width: 150, sort: (data) => freshness(data), show: (data) => freshness(data) },
];

function Chosen({ map, node, choose }: { map: DataMap; node: string; choose: (node: string | null) => void }): ReactElement | null {
  const data = map.data.find((one) => one.node === node);
  const application = map.applications.find((one) => one.node === node);
  const title = data ? data.name : (application?.dag_id ?? "");
  return (
    <section className="details" aria-label={`Details of ${title}`}>
      <div className="heading">
        <h2>
          <small>{data ? [data.kind, data.namespace].filter(Boolean).join(", ") : "Dag"}</small>
          {title}
        </h2>
        <button type="button" className="bare" aria-label="Close details" onClick={() => choose(null)}>
          <Icon name="close" />
        </button>
      </div>
      {data ? <OfData map={map} data={data} choose={choose} /> : null}
      {application ? <OfApplication map={map} one={application} choose={choose} /> : null}
    </section>
  );
}

function OfData({ map, data, choose }: { map: DataMap; data: Data; choose: (node: string) => void }): ReactElement {
  const writers = users(map, data, "writes");
  return (
    <>
      <Facts
        of={[
          ["Known as", data.streams.join(", ")],
          ["Asset", <code key="uri">{data.uri}</code>],
          ["Last success", data.fresh ? <Moment key="at" at={data.fresh.at} ago /> : "none is known"],
          ["Interval", data.fresh?.interval ? <Interval key="interval" ends={data.fresh.interval} /> : null],
          [
            "By",
            data.fresh?.dag_run_id ? <a key="run" href={runPath(data.fresh.dag_id, data.fresh.dag_run_id)}>{data.fresh.dag_run_id}</a> : null,
          ],
        ]}
      />
      <People title="Written by" ours={writers} others={data.writers} choose={choose} />
      <People title="Read by" ours={users(map, data, "reads")} others={data.readers} choose={choose} />
      {writers.map((one) => (
        <Calendar key={one.node} of={one} />
      ))}
    </>
  );
}

function People({
  title,
  ours,
  others,
  choose,
}: {
  title: string;
  ours: readonly Application[];
  others: readonly string[];
  choose: (node: string) => void;
}): ReactElement {
  return (
    <>
      <h3>{title}</h3>
      <ul className="plain">
        {ours.map((one) => (
          <li key={one.node}>
            <button type="button" className="link" onClick={() => choose(one.node)}>
              {one.dag_id}
            </button>{" "}
            <span className="quiet">{one.application}</span>
          </li>
        ))}
        {others.map((dag) => (
          <li key={dag}>
            {dag} <span className="quiet">by its asset</span>
          </li>
        ))}
        {ours.length + others.length === 0 ? <li className="quiet">no Dag that you may read</li> : null}
      </ul>
    </>
  );
}

function OfApplication({ map, one, choose }: { map: DataMap; one: Application; choose: (node: string) => void }): ReactElement {
  const named = (nodes: readonly string[]): ReactElement => (
    <ul className="plain">
      {map.data
        .filter((data) => nodes.includes(data.node))
        .map((data) => (
          <li key={data.node}>
            <button type="button" className="link" onClick={() => choose(data.node)}>
              {data.name}
            </button>
          </li>
        ))}
    </ul>
  );
  return (
    <>
      <Facts
        of={[
          ["Application", one.application],
          ["Newest run", <a key="run" href={runPath(one.dag_id, one.dag_run_id)}>{one.dag_run_id}</a>],
          ["Planned", <Moment key="at" at={one.planned_at} ago />],
          ["In Airflow", <Outside key="airflow" href={airflowRun(one.dag_id, one.dag_run_id)}>Dag run</Outside>],
        ]}
      />
      <h3>{`Reads ${count(one.reads.length)}`}</h3>
      {named(one.reads)}
      <h3>{`Writes ${count(one.writes.length)}`}</h3>
      {named(one.writes)}
      {one.writes.length > 0 ? (
        <Section title="">
          <Calendar of={one} />
        </Section>
      ) : null}
    </>
  );
}
