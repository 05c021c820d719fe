// Asks the REST API of the page's own origin. The credential lives in this tab alone.

const KEY = "armory.token";

/** The gateway's address with its base path: what stands before `/console/`. */
export const base = location.origin + location.pathname.replace(/\/console\/.*$/, "");

export interface Problem {
  status: number;
  code: string;
  detail: string;
  problems?: unknown[];
}

export class Refused extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
  }
}

export function token(): string | null {
  return sessionStorage.getItem(KEY);
}

export function keepToken(value: string | null): void {
  if (value === null) sessionStorage.removeItem(KEY);
  else sessionStorage.setItem(KEY, value);
}

/** A link may carry a token behind `#token=`, where no server and no log sees it. */
export function takeTokenOfLink(): void {
  const found = /^#token=([^&]+)/.exec(location.hash);
  if (!found) return;
  keepToken(decodeURIComponent(found[1] ?? ""));
  history.replaceState(null, "", location.pathname + "#/overview");
}

let whenUnauthenticated: () => void = () => undefined;
export function onUnauthenticated(then: () => void): void {
  whenUnauthenticated = then;
}

export async function ask<T>(method: string, path: string, body?: unknown, signal?: AbortSignal, more: Record<string, string> = {}): Promise<T> {
  const headers: Record<string, string> = { Accept: "application/json", ...more };
  const known = token();
  if (known !== null) headers["Authorization"] = `Bearer ${known}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer: Response;
  try {
    answer = await fetch(base + path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: signal ?? null,
      credentials: "omit",
      redirect: "error",
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Refused({ status: 0, code: "unreachable", detail: "The gateway does not answer. Is it running?" });
  }
  if (answer.status === 204) return undefined as T;
  const text = await answer.text();
  if (!answer.ok) {
    let problem: Problem = { status: answer.status, code: "error", detail: `HTTP ${answer.status}` };
    try {
      const said = JSON.parse(text) as Partial<Problem>;
      problem = { ...problem, ...said };
    } catch {
      // a proxy's own page: the status says enough
    }
    if (answer.status === 401) whenUnauthenticated();
    throw new Refused(problem);
  }
  return JSON.parse(text) as T;
}

export const get = <T>(path: string, signal?: AbortSignal) => ask<T>("GET", path, undefined, signal);
export const post = <T>(path: string, body: unknown, signal?: AbortSignal) => ask<T>("POST", path, body, signal);
