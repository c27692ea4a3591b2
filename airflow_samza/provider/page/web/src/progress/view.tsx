import { useQueryClient } from "@tanstack/react-query";
import type { ReactElement } from "react";
import { type Schemas, api } from "../api/client";
import { failingFor, nextLook } from "../api/looks";
import { UNKNOWN, bytes, clockTime, count, counted, duration, knownSum, ofStages, ofUnit, percent, rate, ratio } from "../format";
import { Answered, Note } from "../parts/answers";
import { Bar, Figures, Section } from "../parts/facts";
import { Inside } from "../parts/links";
import { Moment, watermark } from "../parts/moment";
import { State } from "../parts/state";
import { type Column, Table } from "../parts/table";
import { useRoute } from "../route";
import { useRun } from "../run";
import { StageDetails } from "./stage";

type Stage = Schemas["Stage"];

/** How far the run is: asked again as often as the server finds fitting, while the page is looked at and the run is on. */
export function useProgress() {
  const run = useRun();
  return api.useQuery(
    "get",
    "/api/dags/{dag_id}/runs/{run_id}/plans/{plan_task}/{map_index}/progress",
    { params: { path: run.path } },
    {
      refetchInterval: (query) => nextLook(query.state.data?.next_look, failingFor(query)),
      refetchOnWindowFocus: (query) => (query.state.data?.next_look ?? 1) > 0,
    },
  );
}

/** How far the run is, and each of its stages. */
export function ProgressView(): ReactElement {
  const progress = useProgress();
  return (
    <Answered query={progress} loading="The progress is being read.">
      {(data) => <Shown progress={data} looked={progress.dataUpdatedAt} />}
    </Answered>
  );
}

function Shown({ progress, looked }: { progress: Schemas["Progress"]; looked: number }): ReactElement {
  const { choices } = useRoute();
  const queries = useQueryClient();
  const { stages } = progress;
  const chosen = stages.find((stage) => stage.stage_id === choices.stage);
  const live = progress.next_look > 0;
  return (
    <div className="view">
      <Figures of={figures(progress)} />
      {progress.note ? <Note>{progress.note}</Note> : null}
      <Section
        title="Stages"
        more={
          <span className="quiet live">
            {live ? `Looked at ${clockTime(looked)}, again every ${duration(progress.next_look)}` : "Final"}
            {live ? (
              <button type="button" onClick={() => void queries.invalidateQueries()}>
                Look now
              </button>
            ) : null}
          </span>
        }
      >
        <Table
          label="Progress of the stages"
          rows={stages}
          rowKey={(stage) => stage.stage_id}
          chosen={chosen?.stage_id ?? null}
          empty="The plan has no stages."
          tall={chosen ? 320 : 560}
          columns={COLUMNS}
        />
        {chosen ? null : <p className="quiet fine">Choose a stage to see its inputs, partitions, tables and state.</p>}
      </Section>
      {chosen ? <StageDetails stage={chosen} /> : null}
      <p className="unseen" role="status">
        {`The run is ${progress.state}; ${counted(ended(stages), "stage")} of ${stages.length} ended.`}
      </p>
    </div>
  );
}

const ended = (stages: readonly Stage[]): number => stages.filter((stage) => stage.state === "succeeded").length;

function figures(progress: Schemas["Progress"]): (readonly [string, React.ReactNode, React.ReactNode?])[] {
  const { stages } = progress;
  const sources = stages.flatMap((stage) => stage.inputs.filter((input) => input.producer === null));
  const first = stages.filter((stage) => stage.inputs.length > 0 && stage.inputs.every((input) => input.producer === null));
  const behind = knownSum(stages.map((stage) => stage.lag));
  const began = stages.map((stage) => stage.began_at).filter((at): at is number => at !== null);
  const failed = stages.filter((stage) => ["failed", "lost"].includes(stage.state)).length;
  const reading = knownSum(first.map((stage) => stage.now?.read));
  return [
    ["Run", <State key="state" state={progress.state} />, progress.mode],
    [
      "Stages succeeded",
      `${count(ended(stages))} of ${count(stages.length)}`,
      failed > 0 ? <span className="bad-text">{counted(failed, "stage")} failed</span> : null,
    ],
    ["Read from sources", count(knownSum(sources.map((input) => input.read)) ?? 0), reading === null ? null : `${rate(reading)} now`],
    ["Behind", count(behind), behind === null ? "not known" : `offsets, of ${ofStages(stages)}`],
    [
      "Bytes read, written",
      `${bytes(knownSum(stages.map((stage) => stage.bytes_read)))}, ${bytes(knownSum(stages.map((stage) => stage.bytes_written)))}`,
    ],
    ["Began", <Moment key="began" at={began.length > 0 ? Math.min(...began) : null} />],
    ...(progress.state_version === null ? [] : [["State version left", count(progress.state_version)] as const]),
    ...(progress.requests.length > 0
      ? [["Requests to the root", count(progress.requests.reduce((all, one) => all + one.value, 0))] as const]
      : []),
  ];
}

/** From the stage to its watermark they are 1,078 px wide: all of it is in sight in Airflow on a small laptop. */
const COLUMNS: readonly Column<Stage>[] = [
  {
    id: "stage",
    name: "Stage",
    width: 320,
    sort: (stage) => stage.stage_id,
    show: (stage) => (
      <Inside tab="progress" choices={{ stage: stage.stage_id }}>
        {stage.stage_name}
      </Inside>
    ),
  },
  {
    id: "state",
    name: "State",
    width: 146,
    sort: (stage) => stage.state,
    show: (stage) => (
      <span title={stage.waiting_for ? `Waits for ${stage.waiting_for}` : undefined}>
        <State state={stage.state} />
      </span>
    ),
  },
  {
    id: "percent",
    name: "Progress",
    title: "Of the inputs, how much has been read",
    width: 130,
    sort: (stage) => share(stage),
    show: (stage) => <Bar value={share(stage)} label={`Read by ${stage.stage_name}`} text={percent(share(stage))} />,
  },
  { id: "read", name: "Messages", width: 118, number: true, sort: (s) => s.read, show: (s) => ofUnit(s.read, s.read_unit) },
  {
    id: "rate",
    name: "Rate",
    title: "Messages read per second: of late, or overall once it has ended",
    width: 112,
    number: true,
    sort: (stage) => (stage.now ?? stage.overall)?.read ?? null,
    show: (stage) => <span className="unbroken">{rate((stage.now ?? stage.overall)?.read)}</span>,
  },
  {
    id: "lag",
    name: "Lag",
    title: "Offsets between here and the end of the inputs, as far as that is known",
    width: 106,
    number: true,
    sort: (stage) => stage.lag,
    show: (stage) => count(stage.lag),
  },
  { id: "watermark", name: "Watermark", width: 146, sort: (s) => s.watermark, show: (s) => watermark(s.watermark) },
  {
    id: "ends",
    name: "Ends",
    title: "End-of-stream messages received, of those expected",
    width: 130,
    number: true,
    show: (stage) => ends(stage),
  },
  {
    id: "tasks",
    name: "Tasks",
    title: "Tasks that have nothing left to do in the open epoch, of all",
    width: 134,
    number: true,
    show: (stage) => (stage.tasks ? `${count(stage.tasks_done)} of ${count(stage.tasks)}` : UNKNOWN),
  },
  { id: "epochs", name: "Epochs", width: 75, number: true, sort: (s) => s.epochs, show: (s) => count(s.epochs) },
  { id: "bytes", name: "Bytes in", title: "Bytes of the columns that were read, in memory", width: 90, number: true, sort: (s) => s.bytes_read, show: (s) => bytes(s.bytes_read) },
  { id: "written", name: "Bytes out", title: "Bytes in the systems that were written to", width: 90, number: true, sort: (s) => s.bytes_written, show: (s) => bytes(s.bytes_written) },
  {
    id: "skew",
    name: "Skew",
    title: "Offsets of the largest partition over the mean",
    width: 75,
    number: true,
    sort: (stage) => skew(stage),
    show: (stage) => ratio(skew(stage)),
  },
  { id: "took", name: "Took", title: "The time for which attempts have run the stage", width: 112, number: true, sort: (s) => s.seconds, show: (s) => duration(s.seconds) },
];

/** Return how much of its inputs a stage has read, in per cent; a stage that has succeeded has read all. */
export function share(stage: Stage): number | null {
  if (stage.percent_read !== null) return stage.percent_read;
  return stage.state === "succeeded" ? 100 : null;
}

const ends = (stage: Stage): string => {
  const [have, want] = stage.inputs.reduce(([a, b], input) => [a + input.ends, b + input.ends_expected], [0, 0]);
  return want ? `${count(have)} of ${count(want)}` : UNKNOWN;
};

const skew = (stage: Stage): number | null => {
  const known = stage.inputs.map((input) => input.skew?.ratio).filter((value) => value !== undefined);
  return known.length > 0 ? Math.max(...known) : null;
};
