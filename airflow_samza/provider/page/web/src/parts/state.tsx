import type { ReactElement } from "react";
import { capital } from "../format";
import { Icon, type IconName } from "./icons";

type Tone = "good" | "bad" | "busy" | "warn" | "quiet";

const STATES: Readonly<Record<string, { tone: Tone; icon: IconName }>> = {
  succeeded: { tone: "good", icon: "done" },
  failed: { tone: "bad", icon: "failed" },
  passed: { tone: "good", icon: "done" },
  warned: { tone: "warn", icon: "half" },
  dropped: { tone: "warn", icon: "half" },
  "dead letters": { tone: "warn", icon: "half" },
  "plan failed": { tone: "bad", icon: "failed" },
  lost: { tone: "bad", icon: "unknown" },
  running: { tone: "busy", icon: "running" },
  queued: { tone: "warn", icon: "waiting" },
  unfinished: { tone: "warn", icon: "half" },
  cancelled: { tone: "warn", icon: "stopped" },
  "not started": { tone: "quiet", icon: "idle" },
  gone: { tone: "quiet", icon: "stopped" },
  unknown: { tone: "quiet", icon: "unknown" },
};

/** Return the tone in which a state is shown. */
export const toneOf = (state: string): Tone => STATES[state]?.tone ?? "quiet";

/** A state as shape, colour and word. */
export function State({ state }: { state: string }): ReactElement {
  const { tone, icon } = STATES[state] ?? { tone: "quiet", icon: "unknown" };
  return (
    <span className={`badge ${tone}`}>
      <Icon name={icon} filled={icon === "running"} />
      {capital(state)}
    </span>
  );
}

/** A word about a thing, such as its kind. */
export function Chip({ children, tone = "plain" }: { children: React.ReactNode; tone?: string }): ReactElement {
  return <span className={`chip ${tone}`}>{children}</span>;
}
