import type { ReactElement } from "react";
import { airflowTask } from "../address";
import { type Schemas, api } from "../api/client";
import { UNKNOWN, count, duration } from "../format";
import { Answered, Empty } from "../parts/answers";
import { Section } from "../parts/facts";
import { Icon } from "../parts/icons";
import { Outside } from "../parts/links";
import { Chip } from "../parts/state";
import { Table } from "../parts/table";
import { goTo, useRoute } from "../route";
import { useRun } from "../run";

/** What a clear of a task would do; nothing is cleared here. */
export function ClearView(): ReactElement {
  const run = useRun();
  const { choices } = useRoute();
  const tasks = tasksOf(run.application);
  const byStage = run.application.stages.find((stage) => stage.stage_id === choices.stage)?.task_id;
  const task = choices.task ?? byStage ?? "";
  const downstream = choices.downstream !== "no";
  return (
    <div className="view">
      <p>
        A clear in Airflow makes a task run again. This preview says which stages run with it, and who has already read what
        they write. Nothing is cleared here.
      </p>
      <div className="toolbar">
        <label className="field">
          Clear
          <select value={task} onChange={(event) => goTo("clear", { ...choices, task: event.target.value }, { replace: true })}>
            <option value="">choose a task</option>
            {tasks.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label className="field">
          <input
            type="checkbox"
            checked={downstream}
            onChange={(event) =>
              goTo("clear", { ...choices, task, downstream: event.target.checked ? null : "no" }, { replace: true })
            }
          />
          and the tasks after it
        </label>
        {task ? <Outside href={airflowTask(run.path.dag_id, run.path.run_id, task, run.path.map_index)}>Task in Airflow</Outside> : null}
      </div>
      {task ? <Preview task={task} downstream={downstream} /> : <Empty>Choose the task that you want to clear.</Empty>}
    </div>
  );
}

/** Return the tasks of an application that can be cleared, in order, each once. */
export const tasksOf = (application: Schemas["PlannedApplication"]): string[] => [
  ...new Set([application.plan_task, ...application.stages.map((stage) => stage.task_id)]),
];

function Preview({ task, downstream }: { task: string; downstream: boolean }): ReactElement {
  const run = useRun();
  const preview = api.useQuery("get", "/api/dags/{dag_id}/runs/{run_id}/plans/{plan_task}/{map_index}/clear", {
    params: { path: run.path, query: { task_id: task, downstream } },
  });
  return (
    <Answered query={preview} loading="Loading the effects.">
      {(data) => (
        <>
          <ul className="sentences" aria-label="In short">
            {data.sentences.map((sentence) => (
              <li key={sentence}>{sentence}</li>
            ))}
          </ul>
          <Section title="Stages">
            <Stages stages={data.stages} />
          </Section>
          <Section title="Readers outside of this run">
            <Consumers consumers={data.consumers} />
          </Section>
        </>
      )}
    </Answered>
  );
}

const EFFECTS = {
  "runs again": { tone: "busy", icon: "again" },
  "must run again": { tone: "warn", icon: "warning" },
  stays: { tone: "quiet", icon: "done" },
} as const;

const Effect = ({ effect }: { effect: Schemas["ClearedStage"]["effect"] }): ReactElement => (
  <span className={`badge ${EFFECTS[effect].tone}`}>
    <Icon name={EFFECTS[effect].icon} />
    {effect}
  </span>
);

const Stages = ({ stages }: { stages: readonly Schemas["ClearedStage"][] }): ReactElement => (
  <Table
    label="Effects on the stages"
    rows={stages}
    rowKey={(stage) => stage.stage_id}
    empty="No stage is affected."
    columns={[
      { id: "stage", name: "Stage", width: 260, sort: (s) => s.stage_id, show: (s) => s.stage_name },
      { id: "effect", name: "Effect", width: 160, sort: (s) => s.effect, show: (s) => <Effect effect={s.effect} /> },
      { id: "why", name: "Why", width: 340, show: (stage) => stage.why },
      { id: "took", name: "Took last time", width: 120, number: true, sort: (s) => s.seconds, show: (s) => duration(s.seconds) },
      { id: "read", name: "Messages", width: 110, number: true, sort: (s) => s.messages, show: (s) => count(s.messages) },
    ]}
  />
);

const Consumers = ({ consumers }: { consumers: readonly Schemas["Consumer"][] }): ReactElement => (
  <Table
    label="Readers outside of this run"
    rows={consumers}
    rowKey={(consumer) => `${consumer.kind} ${consumer.name} ${consumer.run ?? ""} ${consumer.stream_id}`}
    empty="Nobody outside of this run is known to have read what is written again."
    columns={[
      { id: "kind", name: "Kind", width: 110, show: (c) => <Chip>{c.kind === "dag" ? "Dag" : "application"}</Chip> },
      { id: "name", name: "Reader", width: 220, sort: (c) => c.name, show: (c) => c.name },
      { id: "run", name: "Run", width: 230, show: (c) => c.run ?? UNKNOWN },
      { id: "stream", name: "Reads", width: 180, show: (c) => c.stream_id },
      { id: "why", name: "Why", width: 320, show: (c) => c.why },
    ]}
  />
);
