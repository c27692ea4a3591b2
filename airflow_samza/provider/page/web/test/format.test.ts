import { describe, expect, it } from "vitest";
import { amount, bytes, clockTime, count, duration, knownSum, localTime, minuteTime, ofStages, ofUnit, percent, plain, rate, shown, utcTime } from "../src/format";

describe("figures", () => {
  it("have separators, and a dash where they are not known", () => {
    expect(count(1234567)).toBe("1,234,567");
    expect(count(0)).toBe("0");
    expect(count(null)).toBe("–");
  });
  it("of bytes are binary", () => {
    expect(bytes(512)).toBe("512 B");
    expect(bytes(1024)).toBe("1 KiB");
    expect(bytes(3.5 * 1024 ** 3)).toBe("3.5 GiB");
  });
  it("of rates keep a decimal only where they are small", () => {
    expect(rate(0.44)).toBe("0.4/s");
    expect(rate(45123.4)).toBe("45,123/s");
    expect(rate(23_456_789)).toBe("23.5M/s");
  });
  it("never call a part of a whole 100 %, or something nothing", () => {
    expect(percent(99.99)).toBe("99.9 %");
    expect(percent(0.001)).toBe("0.1 %");
    expect(percent(100)).toBe("100 %");
    expect(percent(0)).toBe("0 %");
  });
});

describe("durations", () => {
  it("have their two greatest units", () => {
    expect(duration(0.25)).toBe("0.3 s");
    expect(duration(61)).toBe("1 min 1 s");
    expect(duration(3600)).toBe("1 h");
    expect(duration(90_061)).toBe("1 d 1 h");
    expect(duration(59.96)).toBe("1 min");
    expect(duration(0.0421)).toBe("42.1 ms");
    expect(duration(0)).toBe("0 s");
  });
});

describe("counts of tasks", () => {
  it("are shown in their unit, with no digit that nobody measured", () => {
    expect(amount(0.042100000000000005, "seconds")).toBe("42.1 ms");
    expect(amount(4536, "bytes")).toBe("4.4 KiB");
    expect(amount(0.1 + 0.2, "")).toBe("0.3");
    expect(amount(12_345_678, "")).toBe("12,345,678");
  });
  it("name their unit unless they are messages", () => {
    expect(ofUnit(1500, "messages")).toBe("1,500");
    expect(ofUnit(12, "partial results")).toBe("12 partial results");
  });
});

it("moments are given in UTC to the second", () => {
  expect(utcTime(0)).toBe("1970-01-01 00:00:00 UTC");
});

it("moments in the user's zone name the zone", () => {
  const zone = /( UTC| GMT([+-]\d+(:\d+)?)?| [A-Z]{2,5})$/;
  for (const text of [localTime(0), localTime(0, 0), minuteTime(0), clockTime(0)]) expect(text).toMatch(zone);
});

it("values of messages are texts as they are, and all else JSON", () => {
  expect(shown("a")).toBe("a");
  expect(shown(null)).toBe("null");
  expect(shown({ a: [1] })).toBe('{"a":[1]}');
  expect(shown(undefined)).toBe("");
});

it("logs lose the colours of a terminal", () => {
  expect(plain("\u001b[1;31mERROR\u001b[0m x")).toBe("ERROR x");
});

describe("the sum of a figure over stages", () => {
  it("is of what is known, and says of how many", () => {
    expect(knownSum([3, null, undefined, 4])).toBe(7);
    expect(knownSum([null])).toBeNull();
    expect(ofStages([{ lag: 0 }, { lag: 5 }])).toBe("all stages");
    expect(ofStages([{ lag: 0 }, { lag: null }])).toBe("1 of 2 stages");
  });
});
