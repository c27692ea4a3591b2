import type { ReactElement } from "react";
import { api } from "../api/client";
import { bytes, count } from "../format";
import { Answered, Note } from "../parts/answers";
import { Facts, Section } from "../parts/facts";
import { IsoMoment, Moment } from "../parts/moment";
import { Table } from "../parts/table";
import { useRun } from "../run";

/** The state that runs of the application hand on: its versions, and the run that holds it. */
export function StateOfApplication(): ReactElement {
  const run = useRun();
  const state = api.useQuery("get", "/api/dags/{dag_id}/runs/{run_id}/plans/{plan_task}/{map_index}/state", {
    params: { path: run.path },
  });
  return (
    <Section title="State that runs hand on">
      <Answered query={state} loading="Loading the versions of the state.">
        {(data) => (
          <>
            {data.note ? <Note>{data.note}</Note> : null}
            <Facts
              of={[
                ["Held by", data.lease ? `run ${data.lease.run} (${data.lease.standing}), fence ${count(data.lease.fence)}` : null],
                ["Runs with a state of their own", data.apart.join(", ")],
              ]}
            />
            {data.note && data.versions.length === 0 ? null : (
            <Table
              label="Versions of the state"
              rows={data.versions}
              rowKey={(version) => String(version.version)}
              empty="The application has left no version of its state yet."
              tall={300}
              columns={[
                { id: "version", name: "Version", width: 90, number: true, sort: (v) => v.version, show: (v) => count(v.version) },
                { id: "parent", name: "After", width: 80, number: true, show: (v) => count(v.parent) },
                { id: "at", name: "Left at", width: 150, sort: (v) => v.at, show: (v) => <Moment at={v.at} /> },
                {
                  id: "run",
                  name: "By run",
                  width: 230,
                  show: (v) => (v.reset_to === null ? (v.run ?? "") : `set back to version ${v.reset_to}`),
                },
                {
                  id: "interval",
                  name: "Data interval",
                  width: 260,
                  show: (v) =>
                    v.interval ? (
                      <>
                        <IsoMoment text={v.interval[0]} /> – <IsoMoment text={v.interval[1]} />
                      </>
                    ) : (
                      ""
                    ),
                },
                { id: "read", name: "Next offsets", title: "All inputs and partitions added up", width: 110, number: true, sort: (v) => v.offsets, show: (v) => count(v.offsets) },
                { id: "files", name: "Files", width: 70, number: true, show: (v) => count(v.files) },
                { id: "bytes", name: "Bytes", width: 90, number: true, sort: (v) => v.bytes, show: (v) => bytes(v.bytes) },
              ]}
            />
            )}
          </>
        )}
      </Answered>
    </Section>
  );
}
