import type { ReactElement, ReactNode } from "react";
import { mapPath } from "../address";
import type { Schemas } from "../api/client";
import { count, counted } from "../format";
import { Columns, Facts } from "../parts/facts";
import { Icon } from "../parts/icons";
import { Inside } from "../parts/links";
import { Chip } from "../parts/state";

type Plan = Schemas["Plan"];

/** What is known of a node of a plan, beside the graph. */
export function Details({
  plan,
  node,
  choose,
}: {
  plan: Plan;
  node: string;
  choose: (node: string | null) => void;
}): ReactElement | null {
  const found = describe(plan, node, choose);
  if (found === null) return null;
  return (
    <section className="details" aria-label={`Details of ${found.title}`}>
      <div className="heading">
        <h2>
          <small>{found.kind}</small>
          {found.title}
        </h2>
        <button type="button" className="bare" aria-label="Close details" onClick={() => choose(null)}>
          <Icon name="close" />
        </button>
      </div>
      {found.doc ? <p>{found.doc}</p> : null}
      {found.body}
    </section>
  );
}

interface Described {
  kind: string;
  title: string;
  body: ReactNode;
  doc?: string | null;
}

function describe(plan: Plan, node: string, choose: (node: string) => void): Described | null {
  const stage = plan.stages.find((item) => item.node === node);
  if (stage) return { kind: "Stage", title: stage.stage_name, body: <StageBody plan={plan} stage={stage} choose={choose} /> };
  const stream = plan.streams.find((item) => item.node === node);
  if (stream) return { kind: `${role(stream)} stream`, title: stream.stream_id, body: <StreamBody stream={stream} />, doc: stream.doc };
  const operator = plan.operators.find((item) => item.node === node);
  if (operator) return { kind: "Operator", title: operator.title, body: <OperatorBody operator={operator} />, doc: operator.doc };
  const table = plan.tables.find((item) => item.node === node);
  if (table) return { kind: "Table", title: table.table_id, body: <TableBody table={table} />, doc: table.doc };
  return null;
}

/** Return the role of a stream as a word. */
export const role = (stream: Schemas["PlanStream"]): string => {
  const words = stream.role.replace("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
};

function StageBody({
  plan,
  stage,
  choose,
}: {
  plan: Plan;
  stage: Schemas["PlanStage"];
  choose: (node: string) => void;
}): ReactElement {
  const operators = plan.operators.filter((operator) => operator.stage_id === stage.stage_id);
  return (
    <>
      <Facts
        of={[
          ["Airflow task", <code key="task">{stage.task_id}</code>],
          ["Tasks", count(stage.task_count)],
          ["After", stage.upstream.join(", ")],
          ["Reads", stage.inputs.join(", ")],
          ["Writes", stage.outputs.join(", ")],
          ["Side inputs", stage.side_inputs.join(", ")],
          ["Tables", stage.tables.join(", ")],
          ["Epochs", stage.several_epochs ? "several: it reads what it writes" : null],
          ["Engines", stage.engines.join(", ")],
        ]}
      />
      {stage.flows.length > 0 ? (
        <>
          <h3>Reads and sends less</h3>
          <ul className="plain">
            {stage.flows.map((flow) => (
              <li key={`${flow.stream_id} ${flow.text}`}>
                <code>{flow.stream_id}</code> {flow.text}
              </li>
            ))}
          </ul>
        </>
      ) : null}
      <h3>Operators</h3>
      <ul className="plain">
        {operators.map((operator) => (
          <li key={operator.node}>
            <button type="button" className="link" onClick={() => choose(operator.node)}>
              {operator.title}
            </button>{" "}
            {operator.engine ? <Chip>{operator.engine}</Chip> : null}
          </li>
        ))}
      </ul>
      <p className="actions">
        <Inside tab="progress" choices={{ stage: stage.stage_id }}>
          Progress
        </Inside>
        <Inside tab="results" choices={{ stage: stage.stage_id }}>
          Results
        </Inside>
        <Inside tab="clear" choices={{ task: stage.task_id }}>
          Preview of a clear
        </Inside>
      </p>
    </>
  );
}

function StreamBody({ stream }: { stream: Schemas["PlanStream"] }): ReactElement {
  return (
    <>
      <Facts
        of={[
          ["Partitions", `${count(stream.partitions)}: ${stream.reason}`],
          ["Partitioned", stream.partitioning],
          ["System", [stream.system, stream.kind ? `(${stream.kind})` : null].filter(Boolean).join(" ")],
          ["Place", stream.place ? <code key="place">{stream.place}</code> : null],
          ["Code", stream.code ? <code key="code">{stream.code}</code> : null],
          ["Ends", stream.bounded ? "yes, it is bounded" : "no, it is unbounded"],
          ["Broadcast", stream.broadcast ? "yes: every task reads all of it" : null],
          ...stream.slice.map((detail) => [sentence(detail.name), detail.text] as const),
        ]}
      />
      {stream.role === "intermediate" ? null : (
        <p className="actions">
          <a href={mapPath(stream.stream_id)}>Who writes and reads it</a>
        </p>
      )}
      {stream.columns ? <h3>Columns</h3> : null}
      <Columns ddl={stream.columns} />
    </>
  );
}

function OperatorBody({ operator }: { operator: Schemas["PlanOperator"] }): ReactElement {
  return (
    <>
      <Facts
        of={[
          ["Kind", <code key="op">{operator.op}</code>],
          ["Code", operator.code ? <code key="code">{operator.code}</code> : null],
          ["Stage", operator.stage_id],
          ["Engine", operator.engine ? [operator.engine, operator.why].filter(Boolean).join(": ") : null],
          ["Stream", operator.stream_id],
          ["Table", operator.table_id],
          ...operator.details.map((detail) => [sentence(detail.name), <code key={detail.name}>{detail.text}</code>] as const),
        ]}
      />
      {operator.columns ? <h3>Columns that it emits</h3> : null}
      <Columns ddl={operator.columns} />
    </>
  );
}

function TableBody({ table }: { table: Schemas["PlanTable"] }): ReactElement {
  return (
    <>
      <Facts
        of={[
          ["Kind", table.kind],
          ["Code", table.code ? <code key="code">{table.code}</code> : null],
          ["Key", table.key.join(", ")],
          ["Version that the run reads", table.version === null ? null : count(table.version)],
          ["Push", table.push_id],
          ["Side inputs", table.side_inputs.join(", ")],
        ]}
      />
      {table.columns ? <h3>Columns</h3> : null}
      <Columns ddl={table.columns} />
    </>
  );
}

const sentence = (name: string): string => {
  const words = name.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
};

/** Return how large a plan is, in words. */
export const sizeOfPlan = (plan: Plan): string =>
  [
    counted(plan.stages.length, "stage"),
    counted(plan.operators.length, "operator"),
    counted(plan.streams.length, "stream"),
    ...(plan.tables.length > 0 ? [counted(plan.tables.length, "table")] : []),
  ].join(", ");
