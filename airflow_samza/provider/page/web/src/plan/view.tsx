import { type ReactElement, useMemo, useState } from "react";
import { type Schemas, api } from "../api/client";
import { count } from "../format";
import { Answered, Note } from "../parts/answers";
import { IsoMoment } from "../parts/moment";
import { Segments } from "../parts/segments";
import { useProgress } from "../progress/look";
import { goTo, useRoute } from "../route";
import { useRun } from "../run";
import { Comparison } from "./comparison";
import { Details, sizeOfPlan } from "./details";
import { remarksOf, trafficOf } from "./figures";
import { Graph } from "./graph";
import type { Direction, Level } from "./layout";
import { PlanTables } from "./tables";

/** Up to so many operators are shown at first. */
const FEW = 12;

/** What is planned and why: as a graph, as tables, as text; and what has changed since another run. */
export function PlanView(): ReactElement {
  const run = useRun();
  const plan = api.useQuery("get", `/api/dags/{dag_id}/runs/{run_id}/plans/{plan_task}/{map_index}/plan`, {
    params: { path: run.path },
  });
  return (
    <Answered query={plan} loading="Loading the plan.">
      {(data) => <Shown plan={data} />}
    </Answered>
  );
}

function Shown({ plan }: { plan: Schemas["Plan"] }): ReactElement {
  const { choices } = useRoute();
  const [level, setLevel] = useState<Level>(plan.operators.length <= FEW ? "operator" : "stage");
  const [direction, setDirection] = useState<Direction>("RIGHT");
  const [difference, setDifference] = useState<Schemas["Difference"] | null>(null);
  const progress = useProgress().data;
  const remarks = useMemo(() => remarksOf(plan, progress, difference), [plan, progress, difference]);
  const traffic = useMemo(() => trafficOf(plan, progress), [plan, progress]);
  const chosen = choices.node ?? nodeOf(plan, choices.stage) ?? null;
  const choose = (node: string | null): void => {
    goTo("plan", { ...choices, node, stage: node === null ? null : choices.stage }, { replace: true });
  };
  const shape = choices.as ?? "graph";
  return (
    <div className="view">
      <div className="toolbar">
        <Segments
          label="Show the plan as"
          options={[
            ["graph", "Graph"],
            ["table", "Table"],
            ["text", "Text"],
          ]}
          value={shape}
          choose={(as) => goTo("plan", { ...choices, as: as === "graph" ? null : as }, { replace: true })}
        />
        {shape === "graph" ? (
          <>
            <Segments
              label="Detail"
              options={[
                ["stage", "Stages"],
                ["operator", "Operators"],
              ]}
              value={level}
              choose={setLevel}
            />
            <Segments
              label="Direction"
              options={[
                ["RIGHT", "Across"],
                ["DOWN", "Down"],
              ]}
              value={direction}
              choose={setDirection}
            />
          </>
        ) : null}
        <Find plan={plan} choose={choose} />
        <span className="quiet size">{sizeOfPlan(plan)}</span>
      </div>
      {plan.warnings.map((warning) => (
        <Note key={warning}>{warning}</Note>
      ))}
      {shape === "text" ? (
        <pre className="text" tabIndex={0} aria-label="The plan as text">
          {plan.text}
        </pre>
      ) : (
        <div className={chosen ? "beside" : undefined}>
          <div className="main">
            {shape === "graph" ? (
              <Graph
                plan={plan}
                level={level}
                direction={direction}
                remarks={remarks}
                traffic={traffic}
                chosen={chosen}
                choose={choose}
              />
            ) : (
              <PlanTables plan={plan} chosen={chosen} choose={choose} />
            )}
          </div>
          {chosen ? <Details plan={plan} node={chosen} choose={choose} /> : null}
        </div>
      )}
      {shape === "graph" ? <Legend /> : null}
      <Comparison plan={plan} difference={difference} show={setDifference} choose={choose} />
      <p className="quiet fine">
        Plan {count(plan.generation)} of this run, fingerprint <code>{plan.fingerprint}</code>
        {plan.interval ? (
          <>
            ; data interval from <IsoMoment text={plan.interval[0]} /> to <IsoMoment text={plan.interval[1]} />
          </>
        ) : null}
        {plan.partition_key ? (
          <>
            ; partition key <code>{plan.partition_key}</code>
          </>
        ) : null}
        .
      </p>
    </div>
  );
}

const nodeOf = (plan: Schemas["Plan"], stageId: string | undefined): string | undefined =>
  plan.stages.find((stage) => stage.stage_id === stageId)?.node;

const Legend = (): ReactElement => (
  <ul className="legend" aria-label="Legend">
    <li className="stream">stream, with its partitions</li>
    <li className="stage">stage: one Airflow task, with its state at the left</li>
    <li className="operator">operator, with its engine</li>
    <li className="table">table</li>
    <li className="load idle">waits for messages</li>
    <li className="load some">at work</li>
    <li className="load busy">busy: its tasks work nearly all of the time</li>
  </ul>
);

/** A field that finds a node of a plan by its name. */
function Find({ plan, choose }: { plan: Schemas["Plan"]; choose: (node: string) => void }): ReactElement {
  const names = useMemo(
    () =>
      new Map([
        ...plan.operators.map((o) => [o.title, o.node] as const),
        ...plan.tables.map((t) => [t.table_id, t.node] as const),
        ...plan.streams.map((s) => [s.stream_id, s.node] as const),
        ...plan.stages.flatMap((s) => [s.title, s.stage_id, s.stage_name].map((name) => [name, s.node] as const)),
      ]),
    [plan],
  );
  return (
    <form
      className="find"
      role="search"
      onSubmit={(event) => {
        event.preventDefault();
        const sought = String(new FormData(event.currentTarget).get("name") ?? "").trim();
        const close = [...names.keys()].find((name) => name.toLowerCase().includes(sought.toLowerCase()));
        const node = names.get(sought) ?? (sought && close ? names.get(close) : undefined);
        if (node) choose(node);
      }}
    >
      <input name="name" type="search" list="names" placeholder="Find by name" aria-label="Find a node by its name" />
      <datalist id="names">
        {[...names.keys()].slice(0, 400).map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </form>
  );
}
