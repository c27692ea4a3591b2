import { keepPreviousData } from "@tanstack/react-query";
import { type ReactElement, useState } from "react";
import { type Schemas, api } from "../api/client";
import { count, shown } from "../format";
import { Answered, Note } from "../parts/answers";
import { Chip } from "../parts/state";
import { type Column, Table } from "../parts/table";
import { useRun } from "../run";

const LIMIT = 50;
const WIDEST = 12;

/** Messages of one partition, a page at a time; looking consumes nothing. */
export function Messages({
  streamId,
  partition,
  partitions,
  choosePartition,
}: {
  streamId: string;
  partition: number;
  partitions: number;
  choosePartition: (partition: number) => void;
}): ReactElement {
  const run = useRun();
  const [from, setFrom] = useState<number | null>(null);
  const [control, setControl] = useState(true);
  const messages = api.useQuery(
    "get",
    "/api/dags/{dag_id}/runs/{run_id}/plans/{plan_task}/{map_index}/topics/{stream_id}/messages",
    {
      params: {
        path: { ...run.path, stream_id: streamId },
        query: { partition, limit: LIMIT, control, ...(from === null ? {} : { from_offset: from }) },
      },
    },
    { placeholderData: keepPreviousData },
  );
  return (
    <>
      <form
        className="toolbar"
        onSubmit={(event) => {
          event.preventDefault();
          const fields = new FormData(event.currentTarget);
          const offset = String(fields.get("offset") ?? "").trim();
          const sought = Number(fields.get("partition"));
          setFrom(offset === "" ? null : Math.max(Number(offset), 0));
          if (sought !== partition) choosePartition(sought);
        }}
      >
        <label className="field">
          Partition
          <input name="partition" type="number" min={0} max={partitions - 1} defaultValue={partition} required />
        </label>
        <label className="field">
          From offset
          <input name="offset" type="number" min={0} key={from ?? "last"} defaultValue={from ?? ""} placeholder="the last" />
        </label>
        <button type="submit">Show</button>
        <label className="field">
          <input type="checkbox" checked={control} onChange={(event) => setControl(event.target.checked)} />
          Control messages
        </label>
      </form>
      <Answered query={messages} loading="Loading the messages.">
        {(data) => (
          <>
            {data.note ? <Note>{data.note}</Note> : null}
            {data.masked.length > 0 ? <p className="quiet fine">Masked columns: {data.masked.join(", ")}.</p> : null}
            <Table
              label={`Messages of partition ${partition} of ${streamId}`}
              rows={data.messages}
              rowKey={(message) => String(message.offset)}
              empty="There are no messages here."
              tall={420}
              columns={columnsOf(data.messages)}
            />
            <div className="toolbar">
              <button
                type="button"
                disabled={(data.messages[0]?.offset ?? data.next_offset) <= data.oldest}
                onClick={() => setFrom(Math.max((data.messages[0]?.offset ?? data.next_offset) - LIMIT, data.oldest))}
              >
                Earlier
              </button>
              <button type="button" disabled={data.next_offset >= data.head} onClick={() => setFrom(data.next_offset)}>
                Later
              </button>
              <button type="button" onClick={() => (from === null ? void messages.refetch() : setFrom(null))}>
                Last
              </button>
              <span className="quiet">
                Offsets {count(data.oldest)} to {count(Math.max(data.head - 1, 0))} are there.
              </span>
            </div>
          </>
        )}
      </Answered>
    </>
  );
}

type Message = Schemas["Message"];

function columnsOf(messages: readonly Message[]): Column<Message>[] {
  const names = [...new Set(messages.filter((m) => m.control === null).flatMap((m) => Object.keys(m.value)))];
  const wide = names.length > WIDEST;
  return [
    { id: "offset", name: "Offset", width: 90, number: true, show: (message) => count(message.offset) },
    {
      id: "kind",
      name: "Kind",
      width: 120,
      show: (message) => (message.control ? <Chip tone="control">{message.control}</Chip> : "message"),
    },
    ...(wide || names.length === 0
      ? [{ id: "value", name: "Value", width: 400, show: (message: Message) => <code title={shown(message.value)}>{shown(message.value)}</code> }]
      : names.map(
          (name, index): Column<Message> => ({
            id: `value ${name}`,
            name,
            width: 130,
            show: (message) =>
              message.control ? (
                index === 0 ? <code className="quiet">{shown(message.value)}</code> : ""
              ) : (
                <code title={shown(message.value[name])}>{shown(message.value[name])}</code>
              ),
          }),
        )),
  ];
}
