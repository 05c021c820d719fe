// Asks the REST API of the page's own origin. The credential lives in this tab alone.

import { parsed } from "./parts/digits";

const KEY = "armory.token";

/** The gateway's address with its base path: what stands before `/console/`. */
export const base = location.origin + location.pathname.replace(/\/console\/[^/]*$/, "");

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

/** Nothing of whoever was logged in stays in this tab. */
export function forget(): void {
  sessionStorage.clear();
}

/** A link may carry a token behind `#token=`, where no server and no log sees it; whether it did. */
export function takeTokenOfLink(): boolean {
  const found = /^#token=([^&]+)/.exec(location.hash)?.[1];
  if (found === undefined) return false;
  history.replaceState(null, "", location.pathname + "#/overview");
  try {
    keepToken(decodeURIComponent(found));
  } catch {
    keepToken(found); // as it is: the gateway says that it is none
  }
  return true;
}

let whenUnauthenticated: () => void = () => undefined;
export function onUnauthenticated(then: () => void): void {
  whenUnauthenticated = then;
}

export async function ask<T>(method: string, path: string, body?: unknown, signal?: AbortSignal, more: Record<string, string> = {}): Promise<T> {
  const headers = new Headers({ Accept: "application/json", ...more });
  const known = token();
  try {
    if (known !== null) headers.set("Authorization", `Bearer ${known}`);
  } catch {
    whenUnauthenticated();
    throw new Refused({ status: 401, code: "no_credential", detail: "The credential has characters that none can have. Was it copied whole?" });
  }
  if (body !== undefined) headers.set("Content-Type", "application/json");
  let answer: Response;
  let text: string;
  try {
    answer = await fetch(base + path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: signal ?? null,
      credentials: "omit",
      redirect: "error",
    });
    text = await answer.text();
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Refused({ status: 0, code: "unreachable", detail: "The gateway does not answer. Is it running?" });
  }
  if (answer.status === 204) return undefined as T;
  if (!answer.ok) {
    let problem: Problem = { status: answer.status, code: "error", detail: `HTTP ${answer.status}` };
    try {
      const said = JSON.parse(text) as Partial<Problem>;
      problem = { ...problem, ...said };
    } catch {
      // a proxy's own page: the status says enough
    }
    // another credential may have taken its place meanwhile
    if (answer.status === 401 && known === token()) whenUnauthenticated();
    throw new Refused(problem);
  }
  try {
    return parsed(text) as T;
  } catch {
    throw new Refused({ status: answer.status, code: "no_json", detail: "What answered is not the gateway. Is there a proxy between that wants a login?" });
  }
}

export const get = <T>(path: string, signal?: AbortSignal) => ask<T>("GET", path, undefined, signal);
export const post = <T>(path: string, body: unknown, signal?: AbortSignal) => ask<T>("POST", path, body, signal);
