import { keepPreviousData } from "@tanstack/react-query";
import type { ReactElement } from "react";
import { airflowRun, runPath } from "../address";
import { type Schemas, api } from "../api/client";
import { failingFor, nextLook } from "../api/looks";
import { count, counted } from "../format";
import { Answered, Empty, Note } from "../parts/answers";
import { Outside } from "../parts/links";
import { Interval, Moment } from "../parts/moment";
import { State } from "../parts/state";
import { type Column, Table } from "../parts/table";
import { goTo, useRoute } from "../route";

const PAGE = 50;
const SECONDS = 30;

/** All runs under a root, newest first: the page in Airflow's navigation. */
export function AllRuns(): ReactElement {
  const roots = api.useQuery("get", "/api/roots", {});
  return (
    <>
      <header>
        <div className="title">
          <h1>Samza</h1>
        </div>
        <p className="subtitle">Runs of stream applications, of the Dags that you may read</p>
      </header>
      <Answered query={roots} loading="Loading the roots.">
        {(data) =>
          data.roots.length === 0 ? (
            <Empty>{data.note ?? "No Dag that you may read has run a stream application yet."}</Empty>
          ) : (
            <>
              {data.note ? <Note>{data.note}</Note> : null}
              <UnderRoot roots={data.roots} />
            </>
          )
        }
      </Answered>
    </>
  );
}

function UnderRoot({ roots }: { roots: readonly Schemas["Root"][] }): ReactElement {
  const { choices } = useRoute();
  const root = roots.find((one) => one.conn_id === choices.root) ?? (roots[0] as Schemas["Root"]);
  const application = choices.application ?? "";
  const from = Math.max(Number(choices.from ?? 0) || 0, 0);
  const runs = api.useQuery(
    "get",
    "/api/roots/{conn_id}/runs",
    {
      params: {
        path: { conn_id: root.conn_id },
        query: { limit: PAGE, offset: from, ...(application ? { application } : {}) },
      },
    },
    {
      placeholderData: keepPreviousData,
      refetchInterval: (query) => nextLook(SECONDS, failingFor(query)),
    },
  );
  return (
    <div className="view">
      <div className="toolbar">
        <label className="field">
          Root of connection
          <select value={root.conn_id} onChange={(event) => goTo(null, { root: event.target.value })}>
            {roots.map((one) => (
              <option key={one.conn_id} value={one.conn_id}>
                {`${one.conn_id} (${counted(one.runs, "run")})`}
              </option>
            ))}
          </select>
        </label>
        <label className="field">
          Application
          <select
            value={application}
            onChange={(event) => goTo(null, { root: choices.root, application: event.target.value })}
          >
            <option value="">all</option>
            {root.applications.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
      </div>
      <Answered query={runs} loading="Loading the runs.">
        {(data) => (
          <>
            {data.note ? <Note>{data.note}</Note> : null}
            <p className="quiet fine">{data.place ? <code>{data.place}</code> : "The root cannot be opened."}</p>
            <Table
              label="Runs"
              rows={data.runs}
              rowKey={(run) => `${run.dag_id} ${run.dag_run_id} ${run.plan_task} ${run.map_index}`}
              empty="There are no runs here."
              tall={640}
              columns={COLUMNS}
            />
            <div className="toolbar">
              <button
                type="button"
                disabled={from === 0}
                onClick={() => goTo(null, { ...choices, from: from > PAGE ? String(from - PAGE) : null })}
              >
                Newer
              </button>
              <button
                type="button"
                disabled={from + data.runs.length >= data.total}
                onClick={() => goTo(null, { ...choices, from: String(from + PAGE) })}
              >
                Older
              </button>
              <span className="quiet">
                {data.runs.length > 0
                  ? `Runs ${count(from + 1)} to ${count(from + data.runs.length)} of ${count(data.total)}`
                  : ""}
              </span>
            </div>
          </>
        )}
      </Answered>
    </div>
  );
}

const COLUMNS: readonly Column<Schemas["RunRow"]>[] = [
  {
    id: "application",
    name: "Application",
    width: 140,
    sort: (run) => run.application,
    show: (run) => (
      <a
        href={`${runPath(run.dag_id, run.dag_run_id)}#/?app=${encodeURIComponent(`${run.plan_task}@${run.map_index}`)}`}
        title={`${run.application}, run ${run.run}`}
      >
        {run.application}
        {run.map_index >= 0 ? ` [${run.map_index}]` : ""}
      </a>
    ),
  },
  {
    id: "state",
    name: "State",
    width: 136,
    sort: (run) => run.state,
    show: (run) => (
      <span title={run.note ?? undefined}>
        <State state={run.state} />
      </span>
    ),
  },
  { id: "mode", name: "Mode", width: 84, sort: (run) => run.mode, show: (run) => run.mode },
  {
    id: "interval",
    name: "Data interval",
    width: 232,
    sort: (run) => run.interval?.[0] ?? run.partition_key,
    show: (run) => (
      <>
        {run.interval || !run.partition_key ? <Interval ends={run.interval} /> : null}
        {run.partition_key ? <div className="quiet">key {run.partition_key}</div> : null}
      </>
    ),
  },
  { id: "planned", name: "Planned", width: 180, sort: (run) => run.planned_at, show: (run) => <Moment at={run.planned_at} /> },
  { id: "dag", name: "Dag", width: 108, sort: (run) => run.dag_id, show: (run) => <span title={run.dag_id}>{run.dag_id}</span> },
  {
    id: "run",
    name: "Dag run",
    width: 198,
    sort: (run) => run.dag_run_id,
    show: (run) => (
      <span title={run.dag_run_id}>
        <Outside href={airflowRun(run.dag_id, run.dag_run_id)}>{run.dag_run_id}</Outside>
      </span>
    ),
  },
];
