import { useQuery } from "@tanstack/react-query";
import { type ReactElement, useState } from "react";
import { type Schemas, client } from "../api/client";
import { failingFor, nextLook } from "../api/looks";
import { count, counted, percent } from "../format";
import { Answered } from "../parts/answers";
import { Bar } from "../parts/facts";
import { watermark } from "../parts/moment";
import { Segments } from "../parts/segments";
import { Table } from "../parts/table";
import { type LookedAt, useRun } from "../run";

type Row = Schemas["Partition"];
type Order = "partition" | "lag" | "size";

const PAGE = 500;
const SECONDS = 15;

/** The partitions of an input, all of them: fetched by hundreds, shown as far as they are in sight. */
export function PartitionTable({
  stage,
  input,
}: {
  stage: Schemas["Stage"];
  input: Schemas["Input"];
}): ReactElement {
  const run = useRun();
  const [order, setOrder] = useState<Order>("partition");
  const path = { ...run.path, stage_id: stage.stage_id, stream_id: input.stream_id };
  const partitions = useQuery({
    queryKey: ["partitions", path, order],
    queryFn: ({ signal }) => everyPartition(path, order, signal),
    refetchInterval: (query) => nextLook(run.open && stage.state === "running" ? SECONDS : 0, failingFor(query)),
  });
  return (
    <>
      <div className="heading">
        <h3>
          {counted(input.partitions, "partition")} of {input.stream_id}
        </h3>
        <Segments
          label="Order of the partitions"
          options={[
            ["partition", "By number"],
            ["lag", "Furthest behind"],
            ["size", "Largest"],
          ]}
          value={order}
          choose={setOrder}
        />
      </div>
      <Answered query={partitions} loading="Loading the partitions.">
        {(rows) => {
          const most = rows.reduce((found, row) => Math.max(found, row.offsets ?? 0), 1);
          return (
            <Table
              label={`Partitions of ${input.stream_id}`}
              rows={rows}
              rowKey={(row) => String(row.partition)}
              empty="No partition is known yet."
              tall={360}
              columns={[
                { id: "partition", name: "Partition", width: 90, number: true, show: (row) => count(row.partition) },
                {
                  id: "size",
                  name: "Offsets",
                  title: "Offsets for this run, beside the largest partition: those of messages, end-of-stream and watermarks",
                  width: 160,
                  show: (row) =>
                    row.offsets === null ? (
                      <span className="quiet">not known</span>
                    ) : (
                      <Bar
                        value={(100 * row.offsets) / most}
                        label={`Size of partition ${row.partition}`}
                        text={count(row.offsets)}
                      />
                    ),
                },
                { id: "offset", name: "Next offset", width: 110, number: true, show: (row) => count(row.offset) },
                { id: "head", name: "End", width: 110, number: true, show: (row) => count(row.head) },
                { id: "lag", name: "Lag", title: "Offsets that are not read", width: 100, number: true, show: (row) => count(row.lag) },
                { id: "read", name: "Read", width: 80, number: true, show: (row) => percent(row.percent_read) },
                {
                  id: "ends",
                  name: "Ends",
                  title: "End-of-stream messages received, of those expected",
                  width: 100,
                  number: true,
                  show: (row) => `${count(row.ends)} of ${count(row.ends_expected)}`,
                },
                { id: "ended", name: "Ended", width: 75, show: (row) => (row.ended ? "yes" : "no") },
                ...(rows.some((row) => row.watermark !== null)
                  ? [{ id: "watermark", name: "Watermark", width: 180, show: (row: Row) => watermark(row.watermark) }]
                  : []),
              ]}
            />
          );
        }}
      </Answered>
    </>
  );
}

type PartitionPath = LookedAt["path"] & { stage_id: string; stream_id: string };

async function everyPartition(
  path: PartitionPath,
  order: Order,
  signal: AbortSignal,
): Promise<Schemas["Partition"][]> {
  const found: Schemas["Partition"][] = [];
  for (;;) {
    const { data } = await client.GET(
      "/api/dags/{dag_id}/runs/{run_id}/plans/{plan_task}/{map_index}/stages/{stage_id}/inputs/{stream_id}/partitions",
      { params: { path, query: { order, limit: PAGE, offset: found.length } }, signal },
    );
    if (data === undefined) return found;
    found.push(...data.partitions);
    if (found.length >= data.total || data.partitions.length === 0) return found;
  }
}
