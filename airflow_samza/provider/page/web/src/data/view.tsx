import type { ReactElement } from "react";
import { type Schemas, api } from "../api/client";
import { failingFor, nextLook } from "../api/looks";
import { UNKNOWN, bytes, count, counted } from "../format";
import { Answered } from "../parts/answers";
import { Section } from "../parts/facts";
import { Inside } from "../parts/links";
import { Moment } from "../parts/moment";
import { Table } from "../parts/table";
import { useRoute } from "../route";
import { useRun } from "../run";
import { StateOfApplication } from "./state";
import { TablesOfRun } from "./tables";
import { TopicDetails } from "./topic";

const SECONDS = 30;

/** Topics with their messages, tables with their versions, the application's state. */
export function DataView(): ReactElement {
  const run = useRun();
  const { choices } = useRoute();
  const topics = api.useQuery(
    "get",
    "/api/dags/{dag_id}/runs/{run_id}/plans/{plan_task}/{map_index}/topics",
    { params: { path: run.path } },
    { refetchInterval: (query) => nextLook(run.open ? SECONDS : 0, failingFor(query)) },
  );
  return (
    <div className="view">
      <Section title="Topics">
        <Answered query={topics} loading="Loading the topics.">
          {(data) => {
            const chosen = data.topics.find((topic) => topic.stream_id === choices.topic);
            return (
              <>
                <Topics topics={data.topics} chosen={chosen?.stream_id ?? null} />
                {chosen ? <TopicDetails key={chosen.stream_id} topic={chosen} /> : null}
              </>
            );
          }}
        </Answered>
      </Section>
      <TablesOfRun />
      <StateOfApplication />
    </div>
  );
}

function Topics({ topics, chosen }: { topics: readonly Schemas["Topic"][]; chosen: string | null }): ReactElement {
  return (
    <Table
      label="Topics"
      rows={topics}
      rowKey={(topic) => topic.stream_id}
      chosen={chosen}
      tall={chosen ? 260 : 480}
      empty="The run has no topics: all it reads and writes lies in files or other systems."
      columns={[
        {
          id: "topic",
          name: "Stream",
          width: 174,
          sort: (topic) => topic.stream_id,
          show: (topic) => (
            <Inside tab="data" choices={{ topic: topic.stream_id === chosen ? null : topic.stream_id }}>
              {topic.stream_id}
            </Inside>
          ),
        },
        { id: "role", name: "Role", width: 116, sort: (t) => t.role, show: (t) => t.role.replace("_", " ") },
        { id: "system", name: "System", width: 120, show: (t) => (t.system === t.kind ? t.system : `${t.system} (${t.kind})`) },
        { id: "partitions", name: "Partitions", width: 95, number: true, sort: (t) => t.partitions, show: (t) => count(t.partitions) },
        {
          id: "messages",
          name: "Messages",
          width: 120,
          number: true,
          sort: (topic) => topic.messages ?? topic.offsets,
          show: (topic) => (topic.offsets === null ? count(topic.messages) : counted(topic.offsets, "offset")),
        },
        {
          id: "control",
          name: "Control",
          title: "Control messages: end-of-stream and watermarks",
          width: 80,
          number: true,
          sort: (topic) => topic.control,
          show: (topic) => count(topic.control),
        },
        { id: "bytes", name: "Bytes", width: 84, number: true, sort: (t) => t.bytes, show: (t) => bytes(t.bytes) },
        { id: "commit", name: "Last commit", width: 150, sort: (t) => t.last_commit, show: (t) => <Moment at={t.last_commit} /> },
        {
          id: "note",
          name: "Note",
          width: 139,
          show: (topic) =>
            topic.note !== null ? (
              <span title={topic.note}>{topic.note}</span>
            ) : topic.expires === null ? (
              <span className="quiet">{UNKNOWN}</span>
            ) : (
              <>Deleted from <Moment at={topic.expires} /> on</>
            ),
        },
      ]}
    />
  );
}
