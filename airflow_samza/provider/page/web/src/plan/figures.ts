/** The figures of a run on the graph of its plan: states, progress and load on nodes, messages and lag on arrows. */
import type { Schemas } from "../api/client";
import { count, counted, duration, percent, rate, short } from "../format";

type Stage = Schemas["Stage"];

/** How busy a running stage is: the share of its tasks that are at work, or that it waits for messages. */
export type Load = "idle" | "some" | "busy";

/** The lines of a node below its name, the state of a stage, its load, how much it has read, and what has changed. */
export interface Remark {
  line: string;
  figures?: string | undefined;
  doc?: string | undefined;
  state?: string | undefined;
  load?: Load | undefined;
  percent?: number | undefined;
  change?: string | undefined;
}

/** What goes along an arrow: a short text for it, and whether its reader holds the run up. */
export interface Traffic {
  text: string;
  slow: boolean;
}

const SOME = 0.3;
const BUSY = 0.7;

/** Return the load of a stage; undefined where it does not run, or where that is not known. */
export function loadOf(stage: Stage): { load: Load; text: string } | undefined {
  if (stage.state !== "running") return undefined;
  if (stage.bound === "source") return { load: "idle", text: "waits for its source" };
  if (stage.bound === "producer") return { load: "idle", text: "waits for its producer" };
  if (stage.at_work === null || stage.tasks === 0) return undefined;
  const share = Math.min(stage.at_work / stage.tasks, 1);
  return { load: share >= BUSY ? "busy" : share >= SOME ? "some" : "idle", text: `busy ${percent(Math.round(share * 100))}` };
}

/** Return what a stage's node says of its run: how much it has read and how fast, and what is left. */
function figuresOf(stage: Stage, slowest: boolean): string {
  if (stage.state === "not started" || stage.state === "queued") return "";
  const parts =
    stage.state === "running"
      ? [
          slowest ? "bottleneck" : null,
          stage.percent_read === null ? null : percent(stage.percent_read),
          stage.now === null ? null : rate(stage.now.read),
          stage.seconds_left === null ? (stage.lag ? `${count(stage.lag)} behind` : null) : `${duration(stage.seconds_left)} left`,
        ]
      : [`${count(stage.read)} read`, stage.seconds === null ? null : duration(stage.seconds)];
  return parts.filter(Boolean).join(" · ");
}

/** Return the lines of a plan's nodes, with what the run's progress says of its stages. */
export function remarksOf(
  plan: Schemas["Plan"],
  progress: Schemas["Progress"] | undefined,
  difference: Schemas["Difference"] | null,
): Map<string, Remark> {
  const stages = new Map((progress?.stages ?? []).map((stage) => [stage.stage_id, stage]));
  const change = new Map((difference?.changes ?? []).map((found) => [found.node, found.change]));
  const remark = (node: string, line: string, more: Partial<Remark> = {}): [string, Remark] => [
    node,
    { line, change: change.get(node), ...more },
  ];
  const doc = (text: string | null): { doc: string | undefined } => ({ doc: text ?? undefined });
  return new Map([
    ...plan.streams.map((stream) =>
      remark(stream.node, `${counted(stream.partitions, "partition")}${stream.bounded ? "" : ", unbounded"}`, doc(stream.doc)),
    ),
    ...plan.stages.map((stage) => remark(stage.node, ...ofStage(stage, stages.get(stage.stage_id), progress?.bottleneck))),
    ...plan.operators.map((operator) =>
      remark(operator.node, [operator.op, operator.engine].filter(Boolean).join(" · "), doc(operator.doc)),
    ),
    ...plan.tables.map((table) =>
      remark(table.node, table.version === null ? table.kind : `${table.kind}, version ${count(table.version)}`, doc(table.doc)),
    ),
  ]);
}

function ofStage(
  planned: Schemas["PlanStage"],
  stage: Stage | undefined,
  bottleneck: string | null | undefined,
): [string, Partial<Remark>] {
  const tasks = counted(planned.task_count, "task");
  if (stage === undefined) return [tasks, {}];
  const load = loadOf(stage);
  const line = [tasks, stage.state, load?.text ?? stage.waits].filter(Boolean).join(" · ");
  const read = stage.state === "succeeded" ? 100 : (stage.percent_read ?? undefined);
  const begun = stage.state !== "not started" && stage.state !== "queued";
  return [
    line,
    {
      figures: figuresOf(stage, stage.stage_id === bottleneck),
      state: stage.state,
      load: load?.load,
      percent: begun ? read : undefined,
    },
  ];
}

/** The name of an arrow among the traffic: from node to node. */
export const between = (source: string, target: string): string => `${source}>${target}`;

/** Return what goes along the arrows into and out of stages; arrows of stages that have not begun have none. */
export function trafficOf(plan: Schemas["Plan"], progress: Schemas["Progress"] | undefined): Map<string, Traffic> {
  const found = new Map<string, Traffic>();
  const stages = new Map((progress?.stages ?? []).map((stage) => [stage.stage_id, stage]));
  const nodes = new Map<string, Stage>();
  for (const planned of plan.stages) {
    const stage = stages.get(planned.stage_id);
    if (stage === undefined || stage.state === "not started" || stage.state === "queued") continue;
    nodes.set(planned.node, stage);
    for (const id of planned.operators) nodes.set(`operator:${id}`, stage);
  }
  const outputs = new Map(plan.stages.map((stage) => [stage.stage_id, stage.outputs.length]));
  for (const edge of plan.edges) {
    if (edge.kind !== "stream") continue;
    const reader = nodes.get(edge.target);
    const writer = nodes.get(edge.source);
    const text = reader
      ? readText(reader, edge.source.slice("stream:".length))
      : writer && outputs.get(writer.stage_id) === 1
        ? sentText(writer)
        : "";
    if (text) found.set(between(edge.source, edge.target), { text, slow: reader?.stage_id === progress?.bottleneck });
  }
  return found;
}

function readText(stage: Stage, streamId: string): string {
  const input = stage.inputs.find((one) => one.stream_id === streamId);
  if (input === undefined) return "";
  if (stage.state !== "running") return input.read === null ? "" : short(input.read);
  if (input.lag) return `lag ${short(input.lag)}`;
  return input.percent_read === null ? (input.read === null ? "" : short(input.read)) : percent(input.percent_read);
}

const sentText = (stage: Stage): string =>
  stage.state === "running" && stage.now !== null ? rate(stage.now.sent) : short(stage.sent);
