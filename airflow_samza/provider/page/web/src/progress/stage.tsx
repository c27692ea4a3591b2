import { type ReactElement, useState } from "react";
import type { Schemas } from "../api/client";
import { UNKNOWN, amount, bytes, count, counted, duration, ofUnit, percent, rate, ratio } from "../format";
import { Facts, Section } from "../parts/facts";
import { Inside, Outside } from "../parts/links";
import { IsoMoment, Moment, watermark } from "../parts/moment";
import { State } from "../parts/state";
import { type Column, Table } from "../parts/table";
import { airflowTask } from "../address";
import { useRun } from "../run";
import { History } from "./history";
import { PartitionTable } from "./partitions";

type Stage = Schemas["Stage"];

/** A stage in full: figures, inputs by producer, tables, state, the tasks' own counts. */
export function StageDetails({ stage }: { stage: Stage }): ReactElement {
  const run = useRun();
  const inputs = [...stage.inputs, ...stage.side_inputs];
  const [picked, setPicked] = useState<string | null>(null);
  const open = inputs.find((input) => input.stream_id === picked) ?? inputs[0];
  return (
    <Section
      title={`Stage ${stage.stage_name}`}
      more={
        <span className="actions">
          <Outside href={airflowTask(run.path.dag_id, run.path.run_id, stage.task_id, run.path.map_index)}>Task in Airflow</Outside>
          <Inside tab="plan" choices={{ stage: stage.stage_id }}>
            Plan
          </Inside>
          <Inside tab="results" choices={{ stage: stage.stage_id }}>
            Results
          </Inside>
          <Inside tab="progress">All stages</Inside>
        </span>
      }
    >
      <Facts of={facts(stage)} />
      <History stage={stage} />
      <h3>Inputs</h3>
      <Table
        label={`Inputs of ${stage.stage_name}`}
        rows={inputs}
        rowKey={(input) => input.stream_id}
        chosen={open?.stream_id ?? null}
        empty="The stage has not begun to read."
        columns={[
          {
            id: "input",
            name: "Input",
            width: 200,
            show: (input) => (
              <button type="button" className="link" onClick={() => setPicked(input.stream_id)}>
                {input.stream_id}
              </button>
            ),
          },
          { id: "from", name: "Written by", width: 150, show: (input) => input.producer ?? "a source" },
          { id: "messages", name: "Messages", title: "Messages read", width: 100, number: true, show: (input) => count(input.read) },
          { id: "read", name: "Read", width: 80, number: true, show: (input) => percent(input.percent_read) },
          { id: "lag", name: "Lag", title: "Offsets that are not read", width: 90, number: true, show: (input) => count(input.lag) },
          {
            id: "ends",
            name: "Ends received",
            title: "End-of-stream messages received, of those expected from the producing tasks",
            width: 120,
            number: true,
            show: (input) => `${count(input.ends)} of ${count(input.ends_expected)}`,
          },
          {
            id: "ended",
            name: "Partitions ended",
            width: 140,
            number: true,
            show: (input) => `${count(input.ended_partitions)} of ${count(input.partitions)}`,
          },
          ...(inputs.some((input) => input.watermark !== null || input.idle_partitions > 0) ? OF_TIME : []),
          {
            id: "skew",
            name: "Skew",
            width: 170,
            show: (input) =>
              input.skew
                ? `${ratio(input.skew.ratio)}, most in partition ${count(input.skew.largest)} (${counted(input.skew.largest_offsets, "offset")})`
                : UNKNOWN,
          },
        ]}
      />
      {open ? <PartitionTable key={open.stream_id} stage={stage} input={open} /> : null}
      {stage.tables.length > 0 ? <Tables stage={stage} /> : null}
      {stage.metrics.length > 0 ? (
        <details>
          <summary>{counted(stage.metrics.length, "count")} of the tasks and their functions</summary>
          <Facts of={stage.metrics.map((metric) => [metric.name, amount(metric.value, metric.unit)] as const)} />
        </details>
      ) : null}
    </Section>
  );
}

/** Columns of inputs that have watermarks. */
const OF_TIME: readonly Column<Schemas["Input"]>[] = [
  { id: "watermark", name: "Watermark", width: 180, show: (input) => watermark(input.watermark) },
  { id: "idle", name: "Idle", title: "Partitions without a watermark, for which time waits", width: 70, number: true, show: (input) => count(input.idle_partitions) },
];

function facts(stage: Stage): (readonly [string, React.ReactNode])[] {
  const lost = [
    stage.late ? `${count(stage.late)} late` : "",
    stage.dropped ? `${count(stage.dropped)} dropped` : "",
    stage.dead_letters ? `${count(stage.dead_letters)} dead letters` : "",
  ].filter(Boolean);
  const rates = (found: Schemas["Rate"] | null): string | null =>
    found ? `${rate(found.read)} read, ${rate(found.sent)} sent, over ${duration(found.seconds)}` : null;
  return [
    ["State", <State key="state" state={stage.state} />],
    ["Waits", stage.waits],
    ["Time left", stage.seconds_left === null ? null : `${duration(stage.seconds_left)} at the present rate`],
    [
      "At work of late",
      stage.at_work === null ? null : `on average ${amount(stage.at_work, "")} of ${counted(stage.tasks, "task")}`,
    ],
    ["Attempt", `${count(stage.attempt)}, generation ${stage.generation}`],
    ["Began", <Moment key="began" at={stage.began_at} />],
    ["Took", duration(stage.seconds)],
    ["Messages", `${ofUnit(stage.read, stage.read_unit)} read, ${ofUnit(stage.sent, stage.sent_unit)} sent`],
    ["Rate of late", rates(stage.now)],
    ["Rate overall", rates(stage.overall)],
    ["Bytes", `${bytes(stage.bytes_read)} read (in memory), ${bytes(stage.bytes_written)} written`],
    ["Got no further", lost.length > 0 ? <span className="warn-text">{lost.join(", ")}</span> : null],
    ["Tasks", `${count(stage.tasks)}, of which ${count(stage.tasks_ended)} ${stage.tasks_ended === 1 ? "has" : "have"} nothing more to do`],
    ["Epochs", `${count(stage.epochs)}${stage.several_epochs ? "" : ", all in one"}`],
    [
      "State at the start",
      stage.restored.map((found) => `${bytes(found.value)} ${found.name}`).join(", ") || null,
    ],
  ];
}

function Tables({ stage }: { stage: Stage }): ReactElement {
  return (
    <>
      <h3>Tables that it reads</h3>
      <Table
        label={`Tables of ${stage.stage_name}`}
        rows={stage.tables}
        rowKey={(table) => table.table_id}
        empty=""
        columns={[
          { id: "table", name: "Table", width: 200, show: (table) => table.table_id },
          { id: "version", name: "Version", width: 100, number: true, show: (table) => count(table.version) },
          { id: "newest", name: "Current one", width: 110, number: true, show: (table) => count(table.newest) },
          { id: "since", name: "Current since", width: 200, show: (table) => <IsoMoment text={table.current_from} /> },
          {
            id: "fresh",
            name: "Fresh",
            width: 200,
            show: (table) =>
              table.newest === null
                ? UNKNOWN
                : table.newest > table.version
                  ? `${counted(table.newest - table.version, "version")} behind`
                  : "yes",
          },
        ]}
      />
    </>
  );
}
