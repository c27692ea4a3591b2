import type { ReactElement } from "react";
import { airflowRun } from "../address";
import { type Schemas, api } from "../api/client";
import { bytes, count, counted, duration } from "../format";
import { Answered, Note } from "../parts/answers";
import { Section } from "../parts/facts";
import { Inside, Outside, webAddress } from "../parts/links";
import { Moment } from "../parts/moment";
import { Chip, State } from "../parts/state";
import { Table } from "../parts/table";
import { useRoute } from "../route";
import { useRun } from "../run";
import { BadRecords } from "./bad";
import { OtherFailures } from "./failures";
import { Logs } from "./logs";
import { useWhileOpen } from "./repeated";

/** What the run has written, what got no further, why it failed, and what its runners print. */
export function ResultsView(): ReactElement {
  const { choices } = useRoute();
  const stage = choices.stage ?? null;
  return (
    <div className="view">
      {stage ? (
        <p className="filter">
          <Chip>Stage {stage}</Chip> <Inside tab="results">Show all stages</Inside>
        </p>
      ) : null}
      <OtherFailures stage={stage} />
      <Outputs stage={stage} />
      <BadRecords stage={stage} />
      <Logs />
    </div>
  );
}

function Outputs({ stage }: { stage: string | null }): ReactElement {
  const run = useRun();
  const repeated = useWhileOpen();
  const outputs = api.useQuery(
    "get",
    "/api/dags/{dag_id}/runs/{run_id}/plans/{plan_task}/{map_index}/outputs",
    { params: { path: run.path } },
    repeated,
  );
  const links = api.useQuery("get", "/api/dags/{dag_id}/runs/{run_id}/plans/{plan_task}/{map_index}/links", {
    params: { path: run.path },
  });
  const reachable = (links.data?.links ?? []).flatMap((link) => {
    const url = webAddress(link.url);
    return url === null ? [] : [{ ...link, url }];
  });
  return (
    <Answered query={outputs} loading="Loading the outputs.">
      {(data) => (
        <>
          <Section
            title="Outputs"
            more={
              <span className="actions">
                {reachable.map((link) => (
                  <span key={`${link.name} ${link.url}`} title={link.note ?? undefined}>
                    <Outside href={link.url} tabOfItsOwn>
                      {link.stage_id ? `${link.name} of ${link.stage_id}` : link.name}
                    </Outside>
                  </span>
                ))}
              </span>
            }
          >
            {data.waiting.map((found) => (
              <Note key={`${found.stage_id} ${found.text}`}>{found.text}</Note>
            ))}
            <Written outputs={data.outputs.filter((output) => stage === null || output.stage_id === stage)} />
          </Section>
          <Expected
            results={data.expectations.filter((result) => stage === null || result.stage_id === stage)}
          />
          {data.compared ? <Comparison compared={data.compared} /> : null}
          <Section title="Asset events and the runs that they started">
            <Events events={data.events} />
          </Section>
        </>
      )}
    </Answered>
  );
}

/** What was expected of outputs and inputs, and what was found. Nothing where nothing is expected. */
function Expected({ results }: { results: readonly Schemas["Expected"][] }): ReactElement | null {
  return results.length === 0 ? null : (
    <Section title="Expectations">
      <Table
        label="Expectations"
        rows={results}
        rowKey={(result) => `${result.stage_id} ${result.stream_id} ${result.expectation}`}
        empty=""
        columns={[
          { id: "stream", name: "Stream", width: 200, sort: (r) => r.stream_id, show: (r) => r.stream_id },
          { id: "stage", name: "Stage", width: 200, sort: (r) => r.stage_id, show: (r) => r.stage_name },
          { id: "expectation", name: "Expectation", width: 240, sort: (r) => r.expectation, show: (r) => <code>{r.expectation}</code> },
          { id: "outcome", name: "Outcome", width: 140, sort: (r) => r.outcome, show: (r) => <State state={r.outcome} /> },
          { id: "rows", name: "Rows", width: 110, number: true, sort: (r) => r.rows, show: (r) => count(r.rows) },
          { id: "failed", name: "Not met", width: 110, number: true, sort: (r) => r.failed, show: (r) => count(r.failed) },
          { id: "found", name: "Found", width: 320, show: (r) => r.found },
        ]}
      />
    </Section>
  );
}

function Written({ outputs }: { outputs: readonly Schemas["Output"][] }): ReactElement {
  const run = useRun();
  return (
    <Table
      label="Outputs"
      rows={outputs}
      rowKey={(output) => `${output.stage_id} ${output.stream_id}`}
      empty={run.open ? "Nothing has been written yet." : "Nothing was written."}
      columns={[
        {
          id: "stream",
          name: "Stream",
          width: 200,
          sort: (output) => output.stream_id,
          show: (output) => (
            <>
              {output.stream_id} {output.own ? <Chip>between stages</Chip> : null}
            </>
          ),
        },
        { id: "stage", name: "Stage", width: 140, sort: (o) => o.stage_id, show: (output) => output.stage_name },
        {
          id: "messages",
          name: "Rows",
          width: 110,
          number: true,
          sort: (output) => output.messages,
          show: (o) => (o.unit === "messages" ? count(o.messages) : `${count(o.messages)} ${o.unit}`),
        },
        { id: "bytes", name: "Bytes", width: 88, number: true, sort: (o) => o.bytes, show: (o) => bytes(o.bytes) },
        {
          id: "files",
          name: "Files",
          width: 76,
          number: true,
          sort: (output) => output.files,
          show: (output) => <span title={output.file_names.join("\n")}>{count(output.files)}</span>,
        },
        { id: "partitions", name: "Partitions", width: 95, number: true, sort: (o) => o.partitions, show: (o) => count(o.partitions) },
        { id: "seconds", name: "Took", width: 104, number: true, sort: (o) => o.seconds, show: (o) => duration(o.seconds) },
        { id: "place", name: "Place", width: 260, show: (output) => <code>{output.place}</code> },
      ]}
    />
  );
}

function Comparison({ compared }: { compared: Schemas["Compared"] }): ReactElement {
  return (
    <Section title={`Compared with the run ${compared.run_id} of ${compared.application}`}>
      {compared.notes.map((note) => (
        <Note key={note}>{note}</Note>
      ))}
      <Table
        label="Comparison"
        rows={compared.outputs}
        rowKey={(output) => output.stream_id}
        empty="Neither run has outputs."
        columns={[
          {
            id: "stream",
            name: "Stream",
            width: 200,
            sort: (output) => output.stream_id,
            show: (output) => (
              <>
                {output.stream_id} {output.only_in ? <Chip>only in {output.only_in}</Chip> : null}
              </>
            ),
          },
          { id: "equal", name: "Rows are", width: 104, show: (output) => (output.equal ? "equal" : "different") },
          { id: "same", name: "Equal", width: 95, number: true, sort: (o) => o.same, show: (o) => count(o.same) },
          { id: "added", name: "Added", width: 95, number: true, sort: (o) => o.added, show: (o) => count(o.added) },
          { id: "gone", name: "Gone", width: 95, number: true, sort: (o) => o.gone, show: (o) => count(o.gone) },
          {
            id: "different",
            name: "Different",
            width: 95,
            number: true,
            sort: (output) => output.different,
            show: (output) => (output.key.length > 0 ? count(output.different) : "–"),
          },
          { id: "key", name: "By", width: 120, show: (output) => output.key.join(", ") || "whole rows" },
          { id: "columns", name: "Columns", width: 260, show: (output) => output.columns },
        ]}
      />
    </Section>
  );
}

function Events({ events }: { events: readonly Schemas["AssetEvent"][] }): ReactElement {
  return (
    <Table
      label="Asset events"
      rows={events}
      rowKey={(event) => `${event.uri} ${event.at} ${event.task_id ?? ""}`}
      empty="The run has sent no asset event."
      columns={[
        { id: "asset", name: "Asset", width: 300, show: (event) => <code title={event.uri}>{event.name}</code> },
        { id: "at", name: "Sent", width: 150, sort: (event) => event.at, show: (event) => <Moment at={event.at} /> },
        { id: "rows", name: "Rows", width: 100, number: true, show: (event) => count(event.messages) },
        {
          id: "runs",
          name: "Started",
          width: 320,
          show: (event) =>
            event.runs.length + event.hidden_runs === 0 ? (
              <span className="quiet">no run</span>
            ) : (
              <>
                {event.runs.map((started) => (
                  <div key={`${started.dag_id} ${started.run_id}`}>
                    <Outside href={airflowRun(started.dag_id, started.run_id)}>
                      {started.dag_id} · {started.run_id}
                    </Outside>{" "}
                    {started.state ? <State state={started.state === "success" ? "succeeded" : started.state} /> : null}
                  </div>
                ))}
                {event.hidden_runs > 0 ? (
                  <span className="quiet">{counted(event.hidden_runs, "run")} of Dags that you may not read</span>
                ) : null}
              </>
            ),
        },
      ]}
    />
  );
}

