import { type ReactElement, useState } from "react";
import { type Schemas, api } from "../api/client";
import { capital, count } from "../format";
import { Answered, Empty, Note } from "../parts/answers";
import { Section } from "../parts/facts";
import { Table } from "../parts/table";
import { useRun } from "../run";
import { useWhileOpen } from "./repeated";

/** Messages that got no further, by operator, with samples for those who may see them. */
export function BadRecords({ stage }: { stage: string | null }): ReactElement {
  const run = useRun();
  const repeated = useWhileOpen();
  const [samples, setSamples] = useState(false);
  const bad = api.useQuery(
    "get",
    "/api/dags/{dag_id}/runs/{run_id}/plans/{plan_task}/{map_index}/bad-records",
    { params: { path: run.path } },
    repeated,
  );
  return (
    <Section title="Bad records">
      <Answered query={bad} loading="Loading bad records.">
        {(data) => {
          const rows = data.records.filter((found) => stage === null || found.stage_id === stage);
          return (
            <>
              <Table
                label="Bad records by operator"
                rows={rows}
                rowKey={(found) => `${found.stage_id} ${found.operator} ${found.kind}`}
                empty="No message was late, dropped or sent to dead letters."
                columns={[
                  { id: "stage", name: "Stage", width: 200, sort: (f) => f.stage_id, show: (f) => f.stage_name },
                  {
                    id: "operator",
                    name: "Operator",
                    width: 220,
                    sort: (found) => found.operator,
                    show: (found) => found.operator || <span className="quiet">the whole stage</span>,
                  },
                  { id: "kind", name: "Kind", width: 150, sort: (f) => f.kind, show: (f) => capital(f.kind.replaceAll("_", " ")) },
                  { id: "count", name: "Messages", width: 110, number: true, sort: (f) => f.count, show: (f) => count(f.count) },
                ]}
              />
              {rows.length > 0 && data.samples_note ? <Note>{data.samples_note}</Note> : null}
              {rows.length > 0 && run.samples && data.samples_note === null ? (
                <p>
                  <button type="button" aria-expanded={samples} onClick={() => setSamples(!samples)}>
                    {samples ? "Hide samples" : "Show samples"}
                  </button>
                </p>
              ) : null}
              {samples ? <Samples stage={stage} /> : null}
            </>
          );
        }}
      </Answered>
    </Section>
  );
}

function Samples({ stage }: { stage: string | null }): ReactElement {
  const run = useRun();
  const samples = api.useQuery(
    "get",
    "/api/dags/{dag_id}/runs/{run_id}/plans/{plan_task}/{map_index}/bad-records/samples",
    { params: { path: run.path } },
  );
  return (
    <Answered query={samples} loading="Loading samples.">
      {(data) => {
        const rows = data.samples.filter((found) => stage === null || found.stage_id === stage);
        return (
          <>
            {data.note ? <Note>{data.note}</Note> : null}
            {rows.length === 0 ? <Empty>No sample was kept.</Empty> : null}
            <ul className="samples" aria-label="Samples">
              {rows.map((sample, index) => (
                <One key={`${sample.stage_id} ${sample.operator} ${index}`} sample={sample} />
              ))}
            </ul>
          </>
        );
      }}
    </Answered>
  );
}

const One = ({ sample }: { sample: Schemas["Sample"] }): ReactElement => (
  <li>
    <span className="quiet">
      {sample.stage_name}
      {sample.operator ? ` · ${sample.operator}` : ""}
    </span>
    <pre tabIndex={0} aria-label={`Sample of ${sample.operator || sample.stage_name}`}>
      {sample.text}
    </pre>
  </li>
);
