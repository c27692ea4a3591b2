import type { ReactElement } from "react";
import { runPath } from "../address";
import { type Schemas, api } from "../api/client";
import { bytes, count, counted } from "../format";
import { Answered, Empty, Note } from "../parts/answers";
import { Section } from "../parts/facts";
import { IsoMoment } from "../parts/moment";
import { Chip } from "../parts/state";
import { Table } from "../parts/table";
import { useRun } from "../run";

/** The tables of the run; of pushed ones the versions, and who reads which. */
export function TablesOfRun(): ReactElement {
  const run = useRun();
  const tables = api.useQuery("get", "/api/dags/{dag_id}/runs/{run_id}/plans/{plan_task}/{map_index}/tables", {
    params: { path: run.path },
  });
  return (
    <Section title="Tables">
      <Answered query={tables} loading="Loading the tables.">
        {(data) =>
          data.tables.length === 0 ? (
            <Empty>The application has no tables.</Empty>
          ) : (
            data.tables.map((table) => <One key={table.table_id} table={table} />)
          )
        }
      </Answered>
    </Section>
  );
}

function One({ table }: { table: Schemas["Table"] }): ReactElement {
  const pushed = table.versions.length > 0;
  return (
    <section className="inner" aria-label={`Table ${table.table_id}`}>
      <h3>
        {table.table_id} <Chip>{table.kind}</Chip>
        {table.reads === null ? null : (
          <small>
            reads version {count(table.reads)}
            {table.current !== null && table.current !== table.reads ? `; current is ${count(table.current)}` : ""}
          </small>
        )}
      </h3>
      {table.note ? <Note>{table.note}</Note> : null}
      {pushed ? (
        <Table
          label={`Versions of ${table.table_id}`}
          rows={table.versions}
          rowKey={(version) => String(version.number)}
          empty=""
          tall={300}
          columns={[
            {
              id: "version",
              name: "Version",
              width: 150,
              sort: (version) => version.number,
              show: (version) => (
                <>
                  {count(version.number)} {version.current ? <Chip tone="good">current</Chip> : null}
                  {version.expired ? <Chip>expired</Chip> : null}
                </>
              ),
            },
            { id: "kind", name: "Kind", width: 90, show: (version) => version.kind },
            { id: "rows", name: "Rows", width: 110, number: true, sort: (v) => v.rows, show: (v) => count(v.rows) },
            { id: "deletes", name: "Deletions", width: 95, number: true, show: (v) => count(v.deletes) },
            { id: "bytes", name: "Bytes", width: 90, number: true, sort: (v) => v.bytes, show: (v) => bytes(v.bytes) },
            { id: "since", name: "Current from", width: 150, show: (v) => <IsoMoment text={v.current_from} /> },
            { id: "readers", name: "Read by", width: 260, show: (version) => <Readers readers={version.readers} /> },
          ]}
        />
      ) : null}
      {table.hidden_readers > 0 ? (
        <p className="quiet fine">{counted(table.hidden_readers, "more reader")} in runs of Dags that you may not read.</p>
      ) : null}
    </section>
  );
}

const Readers = ({ readers }: { readers: readonly Schemas["TableReader"][] }): ReactElement => (
  <>
    {readers.map((reader) => (
      <div key={`${reader.application} ${reader.run}`}>
        <a href={runPath(reader.dag_id, reader.dag_run_id)}>
          {reader.application} · {reader.dag_run_id}
        </a>
      </div>
    ))}
  </>
);
