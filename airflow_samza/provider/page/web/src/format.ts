/** Numbers, sizes and times as people read them. */

const whole = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
const digits = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 12 });
const three = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 });
const compact = new Intl.NumberFormat(undefined, { notation: "compact", maximumFractionDigits: 1 });
const CLOCK = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZoneName: "short" } as const;
const thisYear = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", ...CLOCK });
const clock = new Intl.DateTimeFormat(undefined, CLOCK);
const anyYear = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric", ...CLOCK });
const minute = new Intl.DateTimeFormat(undefined, {
  year: "numeric",
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  hourCycle: "h23",
  timeZoneName: "short",
});
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** The text for a figure that is not known. */
export const UNKNOWN = "–";

/** Return a number with separators. */
export function count(value: number | null | undefined): string {
  return value === null || value === undefined ? UNKNOWN : whole.format(value);
}

/** Return a number in a few letters: `7,800`, `129K`. */
export const short = (value: number): string => (value < 100_000 ? whole : compact).format(value);

/** Return a count with its noun: `1 task`, `2,048 tasks`. */
export const counted = (value: number, noun: string, plural = `${noun}s`): string =>
  `${count(value)} ${value === 1 ? noun : plural}`;

/** Return a count with its unit, which is left out where it is messages: `12 partial results`. */
export const ofUnit = (value: number | null | undefined, unit: string): string =>
  unit === "messages" ? count(value) : `${count(value)} ${unit}`;

/** Return a figure of the tasks by its unit: a length of time, a size, or a number with all its digits. */
export const amount = (value: number, unit: string): string =>
  unit === "seconds" ? duration(value) : unit === "bytes" ? bytes(value) : digits.format(value);

/** Return the sum of what is known; null where nothing is. */
export const knownSum = (values: readonly (number | null | undefined)[]): number | null => {
  const known = values.filter((value): value is number => value !== null && value !== undefined);
  return known.length > 0 ? known.reduce((one, other) => one + other, 0) : null;
};

/** Return of how many stages the lag is known. */
export const ofStages = (stages: readonly { lag: number | null }[]): string => {
  const known = stages.filter((stage) => stage.lag !== null).length;
  return known === stages.length ? "all stages" : `${count(known)} of ${counted(stages.length, "stage")}`;
};

/** Return a size in binary units. */
export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return UNKNOWN;
  let size = value;
  let unit = 0;
  while (size >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? whole.format(size) : tenth.format(size)} ${UNITS[unit]}`;
}

/** Return a rate per second; small ones keep a decimal, those of ten millions and more are rounded. */
export function rate(value: number | null | undefined): string {
  if (value === null || value === undefined) return UNKNOWN;
  const shown = value < 100 ? tenth : value < 1e7 ? whole : compact;
  return `${shown.format(value)}/s`;
}

/** Return per cent; all but everything is never called 100 %. */
export function percent(value: number | null | undefined): string {
  if (value === null || value === undefined) return UNKNOWN;
  const shown = value > 99.9 && value < 100 ? 99.9 : value > 0 && value < 0.1 ? 0.1 : value;
  return `${tenth.format(shown)} %`;
}

/** Return a duration of so many seconds in its two greatest units. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined) return UNKNOWN;
  if (seconds > 0 && seconds < 0.1) return `${three.format(seconds * 1000)} ms`;
  if (seconds < 59.95) return `${tenth.format(seconds)} s`;
  const total = Math.round(seconds);
  const parts: [number, string][] = [
    [Math.floor(total / 86_400), "d"],
    [Math.floor((total % 86_400) / 3600), "h"],
    [Math.floor((total % 3600) / 60), "min"],
    [total % 60, "s"],
  ];
  const first = parts.findIndex(([amount]) => amount > 0);
  return parts
    .slice(first, first + 2)
    .filter(([amount]) => amount > 0)
    .map(([amount, unit]) => `${whole.format(amount)} ${unit}`)
    .join(" ");
}

/** Return a moment (ms since 1970) in the user's zone, with the zone; the year is left out where it is this one. */
export const localTime = (ms: number, now = Date.now()): string =>
  (new Date(ms).getFullYear() === new Date(now).getFullYear() ? thisYear : anyYear).format(ms);

/** Return a moment (ms since 1970) in the user's zone, with the zone and its year, to the minute. */
export const minuteTime = (ms: number): string => minute.format(ms);

/** Return the time of the day of a moment (ms since 1970) in the user's zone, with the zone. */
export const clockTime = (ms: number): string => clock.format(ms);

/** Return a moment (ms since 1970) in UTC, to the second. */
export const utcTime = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19).replace("T", " ")} UTC`;

/** Return a text with its first letter in upper case. */
export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** Return a value of a message as text: texts as they are, all else as JSON. */
export const shown = (value: unknown): string =>
  typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value);

/** Return a text without the escape sequences by which terminals colour it. */
export const plain = (text: string): string => text.replace(/\u001b\[[0-9;?]*[ -/]*[@-~]/g, "");

/** Return a ratio such as `1.4×`. */
export const ratio = (value: number | null | undefined): string =>
  value === null || value === undefined ? UNKNOWN : `${value.toFixed(value < 10 ? 1 : 0)}×`;
