import type { ReactElement } from "react";

/** Shapes on a field of 16 by 16; a shape tells a state as well as its colour does. */
const SHAPES = {
  done: "M3 8.5l3.5 3.5L13 4.5",
  failed: "M4 4l8 8M12 4l-8 8",
  running: "M5 3.5l7.5 4.5L5 12.5z",
  waiting: "M8 4.5V8l2.5 1.8M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2",
  idle: "M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3",
  half: "M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 0 1 0 11",
  stopped: "M4 8h8",
  unknown: "M5.8 6a2.2 2.2 0 1 1 3 2.1c-.6.3-.8.6-.8 1.4M8 12.2v.3",
  warning: "M8 2.2L14.5 13.5h-13zM8 6.5v3.2M8 11.6v.2",
  stream: "M1.5 8h13M10.5 4.5L14 8l-3.5 3.5",
  table: "M2 3.5h12v9H2zM2 6.8h12M6.5 6.8v5.7",
  out: "M6.5 3.5h-3v9h9v-3M9 3h4v4M13 3L7.5 8.5",
  close: "M4.5 4.5l7 7M11.5 4.5l-7 7",
  again: "M13 8a5 5 0 1 1-1.6-3.7M13 2.5v3h-3",
} as const;

export type IconName = keyof typeof SHAPES;

/** A picture beside a text that says the same, so screen readers leave it out. */
export function Icon({ name, filled = false }: { name: IconName; filled?: boolean }): ReactElement {
  return (
    <svg className="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={SHAPES[name]} fill={filled ? "currentColor" : "none"} />
    </svg>
  );
}
