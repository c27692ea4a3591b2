import { type ReactElement, useEffect, useState } from "react";
import { type Schemas, api } from "../api/client";
import { Answered, Empty } from "../parts/answers";
import { Section } from "../parts/facts";
import { Moment } from "../parts/moment";
import { localTime } from "../format";
import { Chip } from "../parts/state";
import { useRun } from "../run";

/** The plan compared with that of another run of the same Dag. */
export function Comparison({
  plan,
  difference,
  show,
  choose,
}: {
  plan: Schemas["Plan"];
  difference: Schemas["Difference"] | null;
  show: (difference: Schemas["Difference"] | null) => void;
  choose: (node: string) => void;
}): ReactElement {
  const run = useRun();
  const [chosen, setChosen] = useState("");
  const others = api.useQuery(
    "get",
    "/api/dags/{dag_id}/runs/{run_id}/plans/{plan_task}/{map_index}/other-plans",
    { params: { path: run.path } },
  );
  return (
    <Section title="Compare with another run">
      <Answered query={others} loading="Loading other runs.">
        {({ plans }) =>
          plans.length === 0 ? (
            <Empty>There is no other plan of this application to compare with.</Empty>
          ) : (
            <label className="field">
              The plan of
              <select
                value={chosen}
                onChange={(event) => {
                  setChosen(event.target.value);
                  if (event.target.value === "") show(null);
                }}
              >
                <option value="">none</option>
                {plans.map((other) => (
                  <option key={keyOf(other)} value={keyOf(other)}>
                    {other.dag_run_id}
                    {other.dag_run_id === run.path.run_id ? `, plan ${other.generation}` : ""}
                    {` (${localTime(other.planned_at * 1000)}${other.fingerprint === plan.fingerprint ? ", the same" : ""})`}
                  </option>
                ))}
              </select>
            </label>
          )
        }
      </Answered>
      {chosen ? (
        <Changes key={chosen} chosen={chosen} difference={difference} show={show} choose={choose} />
      ) : null}
    </Section>
  );
}

const keyOf = (plan: Schemas["OtherPlan"]): string => `${plan.generation}@${plan.dag_run_id}`;

function Changes({
  chosen,
  show,
  choose,
}: {
  chosen: string;
  difference: Schemas["Difference"] | null;
  show: (difference: Schemas["Difference"] | null) => void;
  choose: (node: string) => void;
}): ReactElement {
  const run = useRun();
  const at = chosen.indexOf("@");
  const query = { other_run_id: chosen.slice(at + 1), other_generation: Number(chosen.slice(0, at)) };
  const found = api.useQuery(
    "get",
    "/api/dags/{dag_id}/runs/{run_id}/plans/{plan_task}/{map_index}/difference",
    { params: { path: run.path, query } },
  );
  useEffect(() => {
    show(found.data ?? null);
    return () => show(null);
  }, [found.data, show]);
  return (
    <Answered query={found} loading="Comparing the plans.">
      {(data) =>
        data.same ? (
          <Empty>
            The plans are the same as <Moment at={data.other.planned_at} />.
          </Empty>
        ) : (
          <>
            <ul className="changes" aria-label="Changes">
              {data.sentences.map((sentence) => (
                <li key={sentence}>{sentence}</li>
              ))}
            </ul>
            <ul className="chips" aria-label="What has changed">
              {data.changes.map((change) => (
                <li key={`${change.kind} ${change.id}`}>
                  <Chip tone={change.change}>{change.change}</Chip>{" "}
                  {change.change === "removed" ? (
                    `${change.kind} ${change.id}`
                  ) : (
                    <button type="button" className="link" onClick={() => choose(change.node)}>
                      {change.kind} {change.id}
                    </button>
                  )}
                </li>
              ))}
            </ul>
          </>
        )
      }
    </Answered>
  );
}
