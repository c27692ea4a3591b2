import type { ReactElement } from "react";
import { type Schemas, api } from "../api/client";
import { bytes, count, counted, duration, localTime } from "../format";
import { Note } from "../parts/answers";
import { useRun } from "../run";

type StageRun = Schemas["StageRun"];

const WIDTH = 240;
const HEIGHT = 48;
const GAP = 2;
/** The widest bar: few runs are no wall of colour. */
const WIDEST = 18;

/** Rows, seconds and bytes of the last runs of a stage, and whether this one is slow. Nothing before a second run. */
export function History({ stage }: { stage: Schemas["Stage"] }): ReactElement | null {
  const run = useRun();
  const { data } = api.useQuery(
    "get",
    "/api/dags/{dag_id}/runs/{run_id}/plans/{plan_task}/{map_index}/stages/{stage_id}/history",
    { params: { path: { ...run.path, stage_id: stage.stage_id } } },
  );
  if (data === undefined || data.runs.length < 2) return null;
  return (
    <>
      {data.note ? <Note>{data.note}</Note> : null}
      <h3>The last {counted(data.runs.length, "run")} of this stage</h3>
      <div className="plots">
        <Plot title="Rows" runs={data.runs} value={(one) => one.rows} text={count} />
        <Plot title="Time" runs={data.runs} value={(one) => one.seconds} text={duration} />
        <Plot title="Bytes written" runs={data.runs} value={(one) => one.bytes} text={bytes} />
      </div>
    </>
  );
}

/** A bar for each run, oldest first; the run that is looked at stands out. */
function Plot({
  title,
  runs,
  value,
  text,
}: {
  title: string;
  runs: readonly StageRun[];
  value: (run: StageRun) => number;
  text: (value: number) => string;
}): ReactElement {
  const values = runs.map(value);
  const most = Math.max(...values);
  const wide = Math.min(WIDTH / runs.length, WIDEST);
  const mine = runs.find((one) => one.is_this);
  const range = `${text(Math.min(...values))} to ${text(most)}`;
  const said = mine ? `${range}, this run ${text(value(mine))}` : range;
  return (
    <figure>
      <figcaption>
        {title} <span className="quiet">{said}</span>
      </figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`${title} of ${counted(runs.length, "run")}: ${said}`}>
        {runs.map((one, place) => {
          const height = most > 0 ? Math.max((value(one) / most) * HEIGHT, 1) : 1;
          return (
            <rect
              key={one.dag_run_id}
              className={one.is_this ? "this" : undefined}
              x={place * wide}
              y={HEIGHT - height}
              width={wide - GAP}
              height={height}
            >
              <title>{`${one.dag_run_id}, ${localTime(one.planned_at * 1000)}: ${text(value(one))}`}</title>
            </rect>
          );
        })}
      </svg>
    </figure>
  );
}
