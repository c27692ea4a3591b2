import type { ReactElement } from "react";
import { UNKNOWN, duration, localTime, minuteTime, utcTime } from "../format";

/** A moment in the user's zone, with UTC on hover; seconds since 1970. */
export function Moment({ at, ago = false }: { at: number | null | undefined; ago?: boolean }): ReactElement {
  if (at === null || at === undefined || at === 0) return <span className="quiet">{UNKNOWN}</span>;
  const passed = Date.now() / 1000 - at;
  return (
    <time dateTime={new Date(at * 1000).toISOString()} title={utcTime(at * 1000)}>
      {localTime(at * 1000)}
      {ago && passed > 0 ? <span className="quiet"> ({duration(Math.round(passed))} ago)</span> : null}
    </time>
  );
}

/** A moment given as an ISO text in UTC. */
export function IsoMoment({ text }: { text: string | null | undefined }): ReactElement {
  const at = msOf(text);
  return Number.isNaN(at) ? <span>{text ?? UNKNOWN}</span> : <Moment at={at / 1000} />;
}

/**
 * A data interval, given as ISO texts in UTC: its start in the user's zone and its length, with both ends on hover. One
 * without a length, as of a run that somebody has triggered, is none.
 */
export function Interval({ ends }: { ends: readonly string[] | null }): ReactElement {
  const [from, to] = [msOf(ends?.[0]), msOf(ends?.[1])];
  if (Number.isNaN(from) || Number.isNaN(to) || from === to) return <span className="quiet">{UNKNOWN}</span>;
  return (
    <span title={`${utcTime(from)} to ${utcTime(to)}`}>
      {minuteTime(from)} <span className="quiet">({duration((to - from) / 1000)})</span>
    </span>
  );
}

function msOf(text: string | null | undefined): number {
  if (!text) return Number.NaN;
  return Date.parse(/(Z|[+-]\d\d:?\d\d)$/.test(text) || !text.includes("T") ? text : `${text}Z`);
}

/** A watermark (ms since 1970) in the user's zone. */
export const watermark = (value: number | null): ReactElement => <Moment at={value === null ? null : value / 1000} />;
