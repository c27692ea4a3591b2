import { type ReactElement, useState } from "react";
import { type Schemas, api } from "../api/client";
import { bytes, count, counted } from "../format";
import { Answered } from "../parts/answers";
import { Columns, Facts } from "../parts/facts";
import { Moment } from "../parts/moment";
import { Segments } from "../parts/segments";
import { Table } from "../parts/table";
import { useRun } from "../run";
import { Messages } from "./messages";

type Part = "messages" | "partitions" | "commits" | "schema";

/** A topic: its messages, the offsets of its partitions, its commits, its columns. */
export function TopicDetails({ topic }: { topic: Schemas["Topic"] }): ReactElement {
  const run = useRun();
  const [part, setPart] = useState<Part>(run.samples ? "messages" : "partitions");
  const [partition, setPartition] = useState(0);
  const detail = api.useQuery(
    "get",
    "/api/dags/{dag_id}/runs/{run_id}/plans/{plan_task}/{map_index}/topics/{stream_id}",
    { params: { path: { ...run.path, stream_id: topic.stream_id } } },
  );
  return (
    <section className="inner" aria-label={`Topic ${topic.stream_id}`}>
      <div className="heading">
        <h3>
          {topic.stream_id} <code className="quiet">{topic.topic}</code>
        </h3>
        <Segments<Part>
          label="Look at"
          options={[
            ["messages", "Messages"],
            ["partitions", "Offsets"],
            ["commits", "Commits"],
            ["schema", "Columns"],
          ]}
          value={part}
          choose={setPart}
        />
      </div>
      {part === "messages" ? (
        <Messages
          key={partition}
          streamId={topic.stream_id}
          partition={partition}
          partitions={topic.partitions ?? detail.data?.partitions.length ?? 1}
          choosePartition={setPartition}
        />
      ) : (
        <Answered query={detail} loading="Loading the topic.">
          {(data) =>
            part === "partitions" ? (
              <Offsets
                detail={data}
                browse={(number) => {
                  setPartition(number);
                  setPart("messages");
                }}
              />
            ) : part === "commits" ? (
              <Commits detail={data} />
            ) : (
              <>
                <Columns ddl={data.columns} />
                <Facts of={[["Columns", data.columns ? null : "The application declares none."]]} />
              </>
            )
          }
        </Answered>
      )}
    </section>
  );
}

function Offsets({
  detail,
  browse,
}: {
  detail: Schemas["TopicDetail"];
  browse: (partition: number) => void;
}): ReactElement {
  return (
    <Table
      label="Offsets of the partitions"
      rows={detail.partitions}
      rowKey={(found) => String(found.partition)}
      empty="The topic has no partitions yet."
      tall={360}
      columns={[
        {
          id: "partition",
          name: "Partition",
          width: 120,
          sort: (found) => found.partition,
          show: (found) => (
            <button type="button" className="link" onClick={() => browse(found.partition)}>
              {count(found.partition)}
            </button>
          ),
        },
        { id: "oldest", name: "Oldest offset", width: 130, number: true, sort: (p) => p.oldest, show: (p) => count(p.oldest) },
        { id: "next", name: "Next offset", width: 130, number: true, sort: (p) => p.next, show: (p) => count(p.next) },
        { id: "messages", name: "Messages", width: 130, number: true, sort: (p) => p.messages, show: (p) => count(p.messages) },
        { id: "control", name: "Control", width: 110, number: true, sort: (p) => p.control, show: (p) => count(p.control) },
      ]}
    />
  );
}

function Commits({ detail }: { detail: Schemas["TopicDetail"] }): ReactElement {
  return (
    <>
      <Table
        label="Commits"
        rows={detail.commits}
        rowKey={(found) => `${found.producer} ${found.commit}`}
        empty={
          detail.topic.control === null
            ? "Other topics than those of the log and between stages have offsets, and no commits."
            : "Nothing has been committed yet."
        }
        tall={360}
        columns={[
          { id: "commit", name: "Commit", width: 90, number: true, sort: (c) => c.commit, show: (c) => count(c.commit) },
          { id: "at", name: "At", width: 190, sort: (c) => c.at, show: (c) => <Moment at={c.at} /> },
          { id: "messages", name: "Messages", width: 110, number: true, sort: (c) => c.messages, show: (c) => count(c.messages) },
          { id: "control", name: "Control", width: 90, number: true, show: (c) => count(c.control) },
          { id: "bytes", name: "Bytes", width: 90, number: true, sort: (c) => c.bytes, show: (c) => bytes(c.bytes) },
          { id: "producer", name: "Written by", width: 180, show: (c) => c.producer },
          { id: "epoch", name: "Generation, epoch", width: 150, show: (c) => `${c.generation}, ${count(c.epoch)}` },
        ]}
      />
      {detail.commits_total > detail.commits.length ? (
        <p className="quiet fine">
          The newest {count(detail.commits.length)} of {counted(detail.commits_total, "commit")}.
        </p>
      ) : null}
    </>
  );
}
