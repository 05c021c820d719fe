// What was typed into the configuration and not saved: it outlives a look at another page, a login and a reload.

const KEEP = "armory.configuration";

export interface Draft {
  base: string; // the file as it was shown when it was typed over
  text: string;
}

export function draft(): Draft | null {
  const found = sessionStorage.getItem(KEEP);
  return found === null ? null : (JSON.parse(found) as Draft);
}

export function keepDraft(value: Draft | null): void {
  try {
    if (value === null) sessionStorage.removeItem(KEEP);
    else sessionStorage.setItem(KEEP, JSON.stringify(value));
  } catch {
    // the text is too large for the tab's store: it is on the page alone
  }
}
