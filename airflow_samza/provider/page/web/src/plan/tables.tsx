import type { ReactElement } from "react";
import type { Schemas } from "../api/client";
import { count } from "../format";
import { Section } from "../parts/facts";
import { Table } from "../parts/table";
import { role } from "./details";

type Choose = (node: string) => void;

const Name = ({ text, choose, node }: { text: string; choose: Choose; node: string }): ReactElement => (
  <button type="button" className="link" onClick={() => choose(node)}>
    {text}
  </button>
);

/** A plan as tables: what the graph shows, for those who read rather than look. */
export function PlanTables({
  plan,
  chosen,
  choose,
}: {
  plan: Schemas["Plan"];
  chosen: string | null;
  choose: Choose;
}): ReactElement {
  return (
    <>
      <Section title="Stages">
        <Table
          label="Stages of the plan"
          rows={plan.stages}
          rowKey={(stage) => stage.node}
          chosen={chosen}
          empty="The plan has no stages."
          columns={[
            {
              id: "stage",
              name: "Stage",
              width: 360,
              sort: (stage) => stage.stage_id,
              show: (stage) => <Name text={stage.stage_name} node={stage.node} choose={choose} />,
            },
            { id: "tasks", name: "Tasks", width: 80, number: true, sort: (s) => s.task_count, show: (s) => count(s.task_count) },
            { id: "after", name: "After", width: 170, show: (stage) => stage.upstream.join(", ") },
            { id: "reads", name: "Reads", width: 200, show: (s) => [...s.inputs, ...s.side_inputs].join(", ") },
            { id: "writes", name: "Writes", width: 200, show: (stage) => stage.outputs.join(", ") },
            { id: "engines", name: "Engines", width: 120, show: (stage) => stage.engines.join(", ") },
          ]}
        />
      </Section>
      <Section title="Streams">
        <Table
          label="Streams of the plan"
          rows={plan.streams}
          rowKey={(stream) => stream.node}
          chosen={chosen}
          empty="The plan has no streams."
          columns={[
            {
              id: "stream",
              name: "Stream",
              width: 190,
              sort: (stream) => stream.stream_id,
              show: (stream) => <Name text={stream.stream_id} node={stream.node} choose={choose} />,
            },
            { id: "role", name: "Role", width: 110, sort: (s) => s.role, show: (s) => role(s) },
            { id: "partitions", name: "Partitions", width: 100, number: true, sort: (s) => s.partitions, show: (s) => count(s.partitions) },
            { id: "reason", name: "Why so many", width: 240, show: (stream) => stream.reason },
            { id: "keyed", name: "Partitioned", width: 160, show: (stream) => stream.partitioning },
            { id: "system", name: "System", width: 130, show: (stream) => stream.system ?? "" },
          ]}
        />
      </Section>
      <Section title="Operators">
        <Table
          label="Operators of the plan"
          rows={plan.operators}
          rowKey={(operator) => operator.node}
          chosen={chosen}
          empty="The plan has no operators."
          columns={[
            {
              id: "operator",
              name: "Operator",
              width: 230,
              sort: (operator) => operator.title,
              show: (operator) => <Name text={operator.title} node={operator.node} choose={choose} />,
            },
            { id: "stage", name: "Stage", width: 170, sort: (o) => o.stage_id, show: (o) => o.stage_id ?? "" },
            { id: "engine", name: "Engine", width: 100, sort: (o) => o.engine, show: (o) => o.engine ?? "" },
            { id: "why", name: "Why", width: 300, show: (operator) => operator.why ?? "" },
          ]}
        />
      </Section>
      {plan.tables.length > 0 ? (
        <Section title="Tables">
          <Table
            label="Tables of the plan"
            rows={plan.tables}
            rowKey={(table) => table.node}
            chosen={chosen}
            empty=""
            columns={[
              {
                id: "table",
                name: "Table",
                width: 200,
                show: (table) => <Name text={table.table_id} node={table.node} choose={choose} />,
              },
              { id: "kind", name: "Kind", width: 140, show: (table) => table.kind },
              { id: "key", name: "Key", width: 160, show: (table) => table.key.join(", ") },
              { id: "version", name: "Version", width: 100, number: true, show: (table) => count(table.version) },
              { id: "side", name: "Side inputs", width: 200, show: (table) => table.side_inputs.join(", ") },
            ]}
          />
        </Section>
      ) : null}
    </>
  );
}
