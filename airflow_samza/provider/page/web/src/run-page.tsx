import { type KeyboardEvent, type ReactElement, Suspense, lazy, useEffect, useMemo } from "react";
import { type Subject, airflowRun } from "./address";
import { type Schemas, api } from "./api/client";
import { failingFor, nextLook } from "./api/looks";
import { BackfillView } from "./backfill/view";
import { ClearView } from "./clear/view";
import { DataView } from "./data/view";
import { count } from "./format";
import { Answered, Empty, Note } from "./parts/answers";
import { Guard } from "./parts/guard";
import { Inside, Outside } from "./parts/links";
import { Moment } from "./parts/moment";
import { Chip, State } from "./parts/state";
import { ProgressView } from "./progress/view";
import { ResultsView } from "./results/view";
import { TABS, type Tab, goTo, parentOfSameOrigin, useRoute } from "./route";
import { type LookedAt, Run } from "./run";

// The graph is the greater part of the page, and only this tab needs it.
const PlanView = lazy(async () => ({ default: (await import("./plan/view")).PlanView }));

type Application = Schemas["PlannedApplication"];

const NAMES: Readonly<Record<Tab, string>> = {
  plan: "Plan",
  progress: "Progress",
  results: "Results and errors",
  data: "Topics and tables",
  clear: "Preview of a clear",
  backfill: "Preview of a backfill",
};
const SECONDS = 15;

/** The page of a Dag run, or of a task instance: then it begins with the stage of that task. */
export function RunPage({ subject }: { subject: Exclude<Subject, { kind: "all" }> }): ReactElement {
  const task = subject.kind === "task" ? { task_id: subject.taskId, map_index: subject.mapIndex } : {};
  const applications = api.useQuery(
    "get",
    "/api/dags/{dag_id}/runs/{run_id}/applications",
    { params: { path: { dag_id: subject.dagId, run_id: subject.runId }, query: task } },
    {
      refetchInterval: (query) => {
        const found = query.state.data?.applications;
        const goesOn = found === undefined || found.length === 0 || found.some((one) => one.state === "running");
        return nextLook(goesOn ? SECONDS : 0, failingFor(query));
      },
    },
  );
  return (
    <Answered query={applications} loading="The run is being looked for.">
      {(data) => {
        if (data.applications.length === 0) return <Empty>{data.note ?? "No task of this run has planned an application yet."}</Empty>;
        return <Shown answer={data} isTask={subject.kind === "task"} />;
      }}
    </Answered>
  );
}

const keyOf = (one: { plan_task: string; map_index: number }): string => `${one.plan_task}@${one.map_index}`;

function Shown({ answer, isTask }: { answer: Schemas["Applications"]; isTask: boolean }): ReactElement {
  const { tab, choices } = useRoute();
  const { applications, selected, dag_id, run_id } = answer;
  const application =
    applications.find((one) => keyOf(one) === choices.app) ??
    applications.find((one) => selected !== null && keyOf(one) === keyOf(selected)) ??
    (applications[0] as Application);
  const stage = isTask ? (selected?.stage_id ?? null) : null;
  const shown = tab ?? (stage ? "progress" : "plan");
  useEffect(() => {
    if (tab === null) goTo(shown, { ...choices, stage: choices.stage ?? stage }, { replace: true });
  }, [tab, shown, choices, stage]);
  const { plan_task, map_index, state } = application;
  const looked = useMemo(
    (): LookedAt => ({
      path: { dag_id, run_id, plan_task, map_index },
      application,
      samples: answer.samples,
      open: state === "running",
    }),
    [dag_id, run_id, plan_task, map_index, state, application, answer.samples],
  );
  return (
    <Run.Provider value={looked}>
      <Head answer={answer} application={application} />
      {answer.note ? <Note>{answer.note}</Note> : null}
      {application.note ? <Note>{application.note}</Note> : null}
      <Tabs shown={shown} stage={choices.stage ?? null} />
      <div role="tabpanel" id="panel" aria-labelledby={`tab-${shown}`} key={`${keyOf(application)} ${shown}`}>
        <Guard>
          <Suspense fallback={<Empty>The view is being loaded.</Empty>}>
            <View tab={shown} />
          </Suspense>
        </Guard>
      </div>
    </Run.Provider>
  );
}

function View({ tab }: { tab: Tab }): ReactElement {
  switch (tab) {
    case "plan":
      return <PlanView />;
    case "progress":
      return <ProgressView />;
    case "results":
      return <ResultsView />;
    case "data":
      return <DataView />;
    case "clear":
      return <ClearView />;
    case "backfill":
      return <BackfillView />;
  }
}

function Head({ answer, application }: { answer: Schemas["Applications"]; application: Application }): ReactElement {
  const { tab } = useRoute();
  const framed = parentOfSameOrigin() !== null;
  return (
    <header>
      <div className="title">
        <h1>{application.application}</h1>
        <State state={application.state} />
        <Chip>{application.mode}</Chip>
        {answer.applications.length > 1 ? (
          <label className="field">
            Application
            <select value={keyOf(application)} onChange={(event) => goTo(tab, { app: event.target.value })}>
              {answer.applications.map((one) => (
                <option key={keyOf(one)} value={keyOf(one)}>
                  {[one.group, one.application].filter(Boolean).join(": ")}
                  {one.map_index >= 0 ? ` [${one.map_index}]` : ""}
                </option>
              ))}
            </select>
          </label>
        ) : null}
        <span className="out">
          <Outside href={framed ? location.href : airflowRun(answer.dag_id, answer.run_id)} tabOfItsOwn={framed}>
            {framed ? "Open in a tab of its own" : "Dag run in Airflow"}
          </Outside>
        </span>
      </div>
      <p className="subtitle">
        Dag <code>{answer.dag_id}</code>, run <code>{answer.run_id}</code>, planned <Moment at={application.planned_at} />
        {application.generation > 1 ? `, plan ${count(application.generation)}` : ""}
      </p>
    </header>
  );
}

function Tabs({ shown, stage }: { shown: Tab; stage: string | null }): ReactElement {
  const go = (event: KeyboardEvent): void => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const next = TABS[(TABS.indexOf(shown) + step + TABS.length) % TABS.length] as Tab;
    goTo(next, { stage });
    document.getElementById(`tab-${next}`)?.focus();
  };
  return (
    <nav aria-label="Views">
      <div role="tablist" className="tabs" aria-label="Views of the run" onKeyDown={go}>
        {TABS.map((tab) => (
          <Inside
            key={tab}
            tab={tab}
            choices={{ stage }}
            more={{
              role: "tab",
              id: `tab-${tab}`,
              "aria-selected": tab === shown,
              "aria-controls": "panel",
              tabIndex: tab === shown ? 0 : -1,
            }}
          >
            {NAMES[tab]}
          </Inside>
        ))}
      </div>
    </nav>
  );
}
