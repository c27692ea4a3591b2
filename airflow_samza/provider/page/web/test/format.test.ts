import { describe, expect, it } from "vitest";
import { bytes, count, duration, percent, plain, rate, shown, utcTime } from "../src/format";

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
    expect(duration(59.96)).toBe("60 s");
  });
});

it("moments are given in UTC to the second", () => {
  expect(utcTime(0)).toBe("1970-01-01 00:00:00 UTC");
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
