import { type ReactElement, useState } from "react";
import { type Schemas, api } from "../api/client";
import { UNKNOWN, bytes, count, counted, duration } from "../format";
import { Answered, Empty, Note } from "../parts/answers";
import { Section, Figures } from "../parts/facts";
import { State } from "../parts/state";
import { Table } from "../parts/table";
import { goTo, useRoute } from "../route";
import { useRun } from "../run";

type Slice = Schemas["BackfillSlice"];

/** The runs that a backfill would make, by the schedule and by what is on record; nothing is made here. */
export function BackfillView(): ReactElement {
  const { choices } = useRoute();
  const [first, setFirst] = useState(choices.first ?? "");
  const [last, setLast] = useState(choices.last ?? "");
  return (
    <div className="view">
      <p>
        A backfill in Airflow makes a run per slice of the schedule. This preview says which, what is there of them already,
        and what another run has cost. Nothing is run here.
      </p>
      <form
        className="toolbar"
        onSubmit={(event) => {
          event.preventDefault();
          goTo("backfill", { ...choices, first, last }, { replace: true });
        }}
      >
        <label className="field">
          First day
          <input type="date" required value={first} onChange={(event) => setFirst(event.target.value)} />
        </label>
        <label className="field">
          Last day
          <input type="date" required value={last} onChange={(event) => setLast(event.target.value)} />
        </label>
        <button type="submit">Show</button>
      </form>
      {choices.first && choices.last ? (
        <Preview first={choices.first} last={choices.last} />
      ) : (
        <Empty>Choose the first and the last day of the backfill, in UTC.</Empty>
      )}
    </div>
  );
}

function Preview({ first, last }: { first: string; last: string }): ReactElement {
  const run = useRun();
  const preview = api.useQuery("get", "/api/dags/{dag_id}/runs/{run_id}/plans/{plan_task}/{map_index}/backfill", {
    params: { path: run.path, query: { first, last } },
  });
  return (
    <Answered query={preview} loading="Loading the preview.">
      {(data) => (
        <>
          {data.note ? <Note>{data.note}</Note> : null}
          <Figures
            of={[
              ["Runs", count(data.slices.length)],
              ["There already", count(data.slices.filter((slice) => slice.there.length > 0).length)],
              ["Time of stages", duration(data.seconds), data.by ? basis(data.by, data.former) : "no former run has succeeded"],
              ["Work in tasks", duration(data.task_seconds)],
              ["Rows", count(data.rows)],
            ]}
          />
          <Section title="Slices">
            <Slices slices={data.slices} />
          </Section>
          <Note>
            The page loads no Dag file, so it knows sizes only of what has been read before. This command plans each slice:{" "}
            <code>{data.command}</code>
          </Note>
        </>
      )}
    </Answered>
  );
}

const basis = (by: string, former: number): string =>
  `by ${counted(former, "former run")}${by === "run" ? "" : `, per ${by.replace(/s$/, "")}`}`;

/** Return the sum of an amount over inputs; null where that of one is not known. */
function sum(slice: Slice, what: "files" | "bytes" | "offsets"): number | null {
  const known = slice.inputs.map((input) => input[what]).filter((amount) => amount !== null);
  return known.length > 0 && known.length === slice.inputs.length ? known.reduce((all, one) => all + one, 0) : null;
}

const Slices = ({ slices }: { slices: readonly Slice[] }): ReactElement => (
  <Table
    label="Slices of the backfill"
    rows={slices}
    rowKey={(slice) => slice.name}
    empty="The backfill makes no runs."
    columns={[
      { id: "slice", name: "Slice", width: 230, show: (slice) => slice.name },
      {
        id: "there",
        name: "There",
        width: 220,
        show: (slice) => (slice.there[0] ? <State state={slice.there[0].state} /> : <span className="quiet">nothing</span>),
      },
      { id: "airflow", name: "Dag run", width: 120, show: (slice) => slice.airflow_run ?? UNKNOWN },
      { id: "files", name: "Files", width: 80, number: true, show: (slice) => count(sum(slice, "files")) },
      { id: "bytes", name: "Bytes", width: 90, number: true, show: (slice) => bytes(sum(slice, "bytes")) },
      { id: "offsets", name: "Offsets", width: 110, number: true, show: (slice) => count(sum(slice, "offsets")) },
      {
        id: "tables",
        name: "Tables",
        width: 200,
        show: (slice) => slice.tables.map((table) => `${table.table_id} ${table.version ?? UNKNOWN}`).join(", ") || UNKNOWN,
      },
      { id: "cost", name: "Estimate", width: 120, number: true, show: (slice) => duration(slice.estimate_seconds) },
      { id: "rows", name: "Rows", width: 100, number: true, show: (slice) => count(slice.estimate_rows) },
    ]}
  />
);
