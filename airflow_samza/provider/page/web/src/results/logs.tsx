import { type ReactElement, useEffect, useRef, useState } from "react";
import { type Schemas, api } from "../api/client";
import { failingFor, nextLook } from "../api/looks";
import { bytes, count, plain } from "../format";
import { Answered, Empty, Note } from "../parts/answers";
import { Section } from "../parts/facts";
import { useRun } from "../run";

const SECONDS = 5;

/** The ends of the logs of the run's stage runners; the newest is followed while it lives. */
export function Logs(): ReactElement {
  const run = useRun();
  const [chosen, setChosen] = useState<number | null>(null);
  const [kilobytes, setKilobytes] = useState(64);
  const [follow, setFollow] = useState(true);
  const logs = api.useQuery(
    "get",
    "/api/dags/{dag_id}/runs/{run_id}/plans/{plan_task}/{map_index}/logs",
    { params: { path: run.path, query: { kilobytes } } },
    { refetchInterval: (query) => nextLook(follow && run.open ? SECONDS : 0, failingFor(query)) },
  );
  return (
    <Section title="Runner's log">
      <Answered query={logs} loading="Loading the log.">
        {(data) => {
          const log = data.logs.find((found) => found.runner === chosen) ?? data.logs[0];
          return (
            <>
              {data.note ? <Note>{data.note}</Note> : null}
              {log === undefined ? (
                <Empty>No stage runner has started yet.</Empty>
              ) : (
                <>
                  <div className="toolbar">
                    {data.logs.length > 1 ? (
                      <label className="field">
                        Runner
                        <select value={log.runner} onChange={(event) => setChosen(Number(event.target.value))}>
                          {data.logs.map((found) => (
                            <option key={found.runner} value={found.runner}>
                              {`${count(found.runner)}${found.host ? ` on ${found.host}` : ""}${found.lives ? ", lives" : ""}`}
                            </option>
                          ))}
                        </select>
                      </label>
                    ) : null}
                    {run.open ? (
                      <label className="field">
                        <input type="checkbox" checked={follow} onChange={(event) => setFollow(event.target.checked)} />
                        Follow
                      </label>
                    ) : null}
                    {log.from_byte > 0 && kilobytes < 1024 ? (
                      <button type="button" onClick={() => setKilobytes(Math.min(kilobytes * 4, 1024))}>
                        Show more
                      </button>
                    ) : null}
                    <span className="quiet">
                      <code>{log.place}</code>
                      {log.bytes === null ? "" : `, ${bytes(log.bytes)}`}
                      {log.from_byte > 0 ? `, from byte ${count(log.from_byte)} on` : ""}
                    </span>
                  </div>
                  {log.note ? <Note>{log.note}</Note> : null}
                  {log.text ? <Tail log={log} follow={follow && run.open} /> : null}
                </>
              )}
            </>
          );
        }}
      </Answered>
    </Section>
  );
}

function Tail({ log, follow }: { log: Schemas["RunnerLog"]; follow: boolean }): ReactElement {
  const box = useRef<HTMLPreElement>(null);
  const seen = useRef("");
  useEffect(() => {
    const pre = box.current;
    if (pre && (follow || seen.current === "")) pre.scrollTop = pre.scrollHeight;
    seen.current = log.text;
  }, [log.text, follow]);
  return (
    <pre className="log" ref={box} tabIndex={0} aria-label={`Log of runner ${log.runner}`}>
      {plain(log.text)}
    </pre>
  );
}
