// Logging in at the gateway's issuer: this tab keeps what belongs to the login until the person is back.

import { get, keepToken, post } from "./api";

const KEPT = "armory.login";

interface Kept { kept: string; state: string; page: string }

/** Whose page people log in at; null where there is none. */
export const issuer = async (): Promise<string | null> => (await get<{ issuer: string | null }>("/v1/login")).issuer;

/** Leave for the issuer's page. */
export async function leave(): Promise<void> {
  const begun = await post<{ url: string; kept: string }>("/v1/login/begin", undefined);
  const url = new URL(begun.url);
  const kept: Kept = { kept: begun.kept, state: url.searchParams.get("state") ?? "", page: location.hash };
  sessionStorage.setItem(KEPT, JSON.stringify(kept));
  location.assign(url);
}

/** Where a person has come back from the issuer, finish its login. Nothing of it stays in the address. */
export async function comeBack(): Promise<void> {
  const back = new URLSearchParams(location.search);
  if (!back.has("state")) return;
  const found = sessionStorage.getItem(KEPT);
  sessionStorage.removeItem(KEPT);
  const kept = found === null ? null : (JSON.parse(found) as Kept);
  history.replaceState(null, "", location.pathname + (kept?.page || "#/overview"));
  if (kept === null || kept.state !== back.get("state")) throw new Error("This tab has begun no such login. Begin again.");
  const said = Object.fromEntries(["code", "state", "iss", "error", "error_description"].flatMap((name) => {
    const value = back.get(name);
    return value === null ? [] : [[name, value]];
  }));
  const done = await post<{ token: string }>("/v1/login/finish", { ...said, kept: kept.kept });
  keepToken(done.token);
}
