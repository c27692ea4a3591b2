import { useQueryClient } from "@tanstack/react-query";
import type { ReactElement } from "react";
import type { Schemas } from "../api/client";
import { UNKNOWN, bytes, clockTime, count, counted, duration, knownSum, ofStages, ofUnit, percent, rate, ratio } from "../format";
import { Answered, Note } from "../parts/answers";
import { Bar, Figures, Section } from "../parts/facts";
import { Inside } from "../parts/links";
import { Moment, watermark } from "../parts/moment";
import { Segments } from "../parts/segments";
import { Chip, State } from "../parts/state";
import { type Column, Table } from "../parts/table";
import { goTo, useRoute } from "../route";
import { useProgress } from "./look";
import { StageDetails } from "./stage";

type Stage = Schemas["Stage"];

/** How far the run is, and each of its stages. */
export function ProgressView(): ReactElement {
  const progress = useProgress();
  return (
    <Answered query={progress} loading="Loading the progress.">
      {(data) => <Shown progress={data} looked={progress.dataUpdatedAt} />}
    </Answered>
  );
}

function Shown({ progress, looked }: { progress: Schemas["Progress"]; looked: number }): ReactElement {
  const { choices } = useRoute();
  const queries = useQueryClient();
  const { stages } = progress;
  const chosen = stages.find((stage) => stage.stage_id === choices.stage);
  const shown = stages.filter(SHOWN[choices.show ?? ""] ?? (() => true));
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
        {stages.length > 1 ? <Filter stages={stages} /> : null}
        <Table
          label="Progress of the stages"
          rows={shown}
          rowKey={(stage) => stage.stage_id}
          chosen={chosen?.stage_id ?? null}
          empty={stages.length > 0 ? "No stage is in this state." : "The plan has no stages."}
          tall={chosen ? 320 : 560}
          columns={columnsOf(progress)}
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

const FAILED: readonly string[] = ["failed", "lost", "cancelled"];

/** What filters let through, by their names in the address. */
const SHOWN: Readonly<Record<string, (stage: Stage) => boolean>> = {
  failed: (stage) => FAILED.includes(stage.state),
  running: (stage) => stage.state === "running" || stage.state === "queued",
  waiting: (stage) => stage.waits !== null,
};

function Filter({ stages }: { stages: readonly Stage[] }): ReactElement {
  const { choices } = useRoute();
  const named = (name: string, title: string): readonly [string, string] => [
    name,
    `${title} (${count(stages.filter(SHOWN[name] ?? (() => true)).length)})`,
  ];
  return (
    <Segments
      label="Stages that are shown"
      options={[named("", "All"), named("failed", "Failed"), named("running", "Running"), named("waiting", "Waiting")]}
      value={choices.show ?? ""}
      choose={(show) => goTo("progress", { ...choices, show }, { replace: true })}
    />
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
  const slowest = stages.find((stage) => stage.stage_id === progress.bottleneck);
  const left = stages.map((stage) => stage.seconds_left).filter((seconds): seconds is number => seconds !== null);
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
    ...(left.length === 0
      ? []
      : ([["Time left", duration(Math.max(...left)), slowest ? `bottleneck: ${slowest.stage_name}` : "at the present rate"]] as const)),
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

/** The columns that say something of these stages: a run of bounded inputs has no watermark, one that is over no lag. */
function columnsOf({ stages, bottleneck }: Schemas["Progress"]): readonly Column<Stage>[] {
  const any = (says: (stage: Stage) => boolean): boolean => stages.some(says);
  const left: Readonly<Record<string, boolean>> = {
    why: any((stage) => why(stage) !== null),
    left: any((stage) => stage.seconds_left !== null),
    lag: any((stage) => (stage.lag ?? 0) > 0),
    watermark: any((stage) => stage.watermark !== null),
    ends: any((stage) => stage.several_epochs && stage.inputs.some((input) => input.ends_expected > 1)),
    epochs: any((stage) => stage.several_epochs),
    skew: any((stage) => skew(stage) !== null),
  };
  return [stageColumn(bottleneck), ...COLUMNS.filter((column) => left[column.id] ?? true)];
}

/** The name of a stage; together with state and progress as wide as a phone. */
const stageColumn = (bottleneck: string | null): Column<Stage> => ({
  id: "stage",
  name: "Stage",
  width: 300,
  narrow: 126,
  sort: (stage) => stage.stage_id,
  show: (stage) => (
    <span title={stage.stage_name}>
      <Inside tab="progress" choices={{ stage: stage.stage_id }}>
        {stage.stage_name}
      </Inside>{" "}
      {stage.stage_id === bottleneck ? <Chip tone="changed">bottleneck</Chip> : null}
    </span>
  ),
});

const BOUND: Readonly<Record<NonNullable<Stage["bound"]>, string>> = {
  source: "Source-bound: it has read all that its source has.",
  producer: "Waits for its producer: it has read all that is written.",
  tasks: "Compute-bound: its tasks are at work nearly all of the time.",
  sink: "Sink-bound: most of its time passes until what it has written is published.",
  epochs: "Its tasks are seldom at work: epochs begin and commit, or wait for slots of Spark.",
};

/** Return why a stage has not begun, or what sets the pace of one that runs. */
const why = (stage: Stage): string | null => stage.waits ?? (stage.bound === null ? null : BOUND[stage.bound]);

const COLUMNS: readonly Column<Stage>[] = [
  {
    id: "state",
    name: "State",
    width: 146,
    narrow: 126,
    sort: (stage) => stage.state,
    show: (stage) => <State state={stage.state} />,
  },
  {
    id: "percent",
    name: "Progress",
    title: "Of the inputs, how much has been read",
    width: 130,
    narrow: 112,
    sort: (stage) => share(stage),
    show: (stage) => <Bar value={share(stage)} label={`Read by ${stage.stage_name}`} text={percent(share(stage))} />,
  },
  {
    id: "left",
    name: "Time left",
    title: "What lies before the stage, at its present rate",
    width: 100,
    number: true,
    sort: (stage) => stage.seconds_left,
    show: (stage) => duration(stage.seconds_left),
  },
  {
    id: "why",
    name: "Waits, or is bound by",
    width: 236,
    sort: (stage) => why(stage),
    show: (stage) => (
      <span className="why" title={why(stage) ?? undefined}>
        {why(stage) ?? UNKNOWN}
      </span>
    ),
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
  { id: "watermark", name: "Watermark", width: 180, sort: (s) => s.watermark, show: (s) => watermark(s.watermark) },
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
    title: "Offsets of the largest partition over the mean, and the number of that partition",
    width: 150,
    number: true,
    sort: (stage) => skew(stage)?.ratio ?? null,
    show: (stage) => {
      const found = skew(stage);
      return found === null ? UNKNOWN : `${ratio(found.ratio)}, partition ${count(found.largest)}`;
    },
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

/** Return the skew of the input whose partitions are the most unequal. */
const skew = (stage: Stage): Schemas["Skew"] | null =>
  stage.inputs.reduce<Schemas["Skew"] | null>(
    (most, { skew: found }) => (found && found.ratio > (most?.ratio ?? 1) ? found : most),
    null,
  );
