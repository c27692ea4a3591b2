import type { ReactElement } from "react";
import { runPath } from "../address";
import { type Schemas, api } from "../api/client";
import { counted } from "../format";
import { Answered } from "../parts/answers";

/** The slots of the outputs of an application: a square each, which leads to the run that fills it. */
export function Calendar({ of }: { of: Schemas["MapApplication"] }): ReactElement {
  const { dag_id, dag_run_id: run_id, plan_task, map_index } = of;
  const calendar = api.useQuery("get", "/api/dags/{dag_id}/runs/{run_id}/plans/{plan_task}/{map_index}/calendar", {
    params: { path: { dag_id, run_id, plan_task, map_index } },
  });
  return (
    <>
      <h3>{`Slots that ${dag_id} writes`}</h3>
      <Answered query={calendar} loading="Loading the slots.">
        {({ slots, note, outputs, follows }) => (
          <>
            {note ? <p className="quiet fine">{note}</p> : null}
            {slots.length > 0 ? (
              <p className="fine">
                {`${counted(slots.filter((slot) => slot.state === "filled").length, "slot")} of ${slots.length} filled, of ${outputs.join(", ")}, `}
                <span className="quiet">{follows.length > 0 ? "as the storage says" : "as the Dag runs say"}</span>
              </p>
            ) : null}
            <ul className="slots" aria-label={`Slots that ${dag_id} writes`}>
              {slots.map((slot) => (
                <li key={`${slot.start} ${slot.end} ${slot.partition_key}`}>
                  <Slot dagId={dag_id} slot={slot} />
                </li>
              ))}
            </ul>
          </>
        )}
      </Answered>
    </>
  );
}

/** Return a slot in words: its interval's begin, and its partition key. */
export const slotName = ({ start, partition_key: key }: Pick<Schemas["CalendarSlot"], "start" | "partition_key">): string =>
  [start === null ? null : `${start.slice(0, 16).replace("T", " ")} UTC`, key === null ? null : `key ${key}`]
    .filter((part) => part !== null)
    .join(", ");

const MARKS: Readonly<Record<string, string>> = { filled: "✓", failed: "✕", running: "▸", missing: "" };

function Slot({ dagId, slot }: { dagId: string; slot: Schemas["CalendarSlot"] }): ReactElement {
  const run = slot.runs.find((one) => one.dag_run_id === slot.holder) ?? slot.runs[0];
  const by = slot.holder ?? run?.dag_run_id;
  const text = `${slotName(slot)}: ${slot.state}${by === undefined ? "" : `, by ${by}`}`;
  const mark = (
    <>
      <span aria-hidden="true">{MARKS[slot.state]}</span>
      <span className="unseen">{text}</span>
    </>
  );
  return run ? (
    <a className={`slot ${slot.state}`} href={runPath(dagId, run.dag_run_id)} title={text}>
      {mark}
    </a>
  ) : (
    <span className={`slot ${slot.state}`} title={text}>
      {mark}
    </span>
  );
}
