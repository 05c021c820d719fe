// The console: who is logged in, which page is shown.

import { render } from "preact";
import { useCallback, useEffect, useErrorBoundary, useRef, useState } from "preact/hooks";
import { forget, get, keepToken, onUnauthenticated, Refused, takeTokenOfLink, token } from "./api";
import { comeBack, issuer, leave } from "./login";
import { Activity } from "./pages/activity";
import { Changes } from "./pages/changes";
import { Configuration } from "./pages/configuration";
import { Connect } from "./pages/connect";
import { Overview } from "./pages/overview";
import { People } from "./pages/people";
import { Playground } from "./pages/playground";
import { Tools } from "./pages/tools";
import { Usage } from "./pages/usage";
import type { Me } from "./types";
import { Failure, plain, words } from "./ui";

interface Entry {
  title: string;
  page: (props: { me: Me }) => preact.JSX.Element;
  admin?: boolean;
}

const PAGES: Record<string, Entry> = {
  overview: { title: "Overview", page: Overview },
  playground: { title: "Playground", page: Playground },
  tools: { title: "Tools", page: Tools },
  activity: { title: "Activity", page: Activity },
  changes: { title: "Changes", page: Changes, admin: true },
  people: { title: "People", page: People },
  usage: { title: "Usage", page: Usage },
  configuration: { title: "Configuration", page: Configuration, admin: true },
  connect: { title: "Connect", page: Connect },
};

const place = (): string => {
  const name = /^#\/([a-z]+)/.exec(location.hash)?.[1] ?? "";
  return Object.hasOwn(PAGES, name) ? name : "overview";
};

const THEME = "armory.theme";
const darkOutside = matchMedia("(prefers-color-scheme: dark)");
const theme = (): string => localStorage.getItem(THEME) ?? (darkOutside.matches ? "dark" : "light");
const paint = (): void => void (document.documentElement.dataset["theme"] = theme());
paint();

function Login(props: { said: string | null; done: () => void; back: (() => void) | null }) {
  const [value, setValue] = useState("");
  const [at, setAt] = useState<string | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = "Log in · Armory console";
    heading.current?.focus(); // of whatever page was here, nothing is left to be at
    void issuer().then(setAt, () => undefined);
  }, []);
  return (
    <main class="login">
      <form class="panel stack" onSubmit={(event) => {
        event.preventDefault();
        keepToken(value.trim() || null);
        props.done();
      }}>
        <div class="brand"><img src="icon.svg" alt="" /> <h1 ref={heading} tabIndex={-1}>Armory console</h1></div>
        {(problem ?? props.said) && <div class="notice bad" role="alert">{plain(problem ?? props.said ?? "")}</div>}
        {at !== null && (
          <><button type="button" class="primary" onClick={() => void leave().catch((error: unknown) => setProblem(words(error)))}>Log in at {hostOf(at)}</button>
            <p class="small muted">or with a credential of this gateway:</p></>
        )}
        <label class="field">Token or API key
          <input type="password" autocomplete="off" spellcheck={false} value={value} required
            onInput={(event) => setValue(event.currentTarget.value)} />
        </label>
        <button class={at === null ? "primary" : ""}>Log in</button>
        {props.back !== null && <button type="button" onClick={props.back}>Go on without a login</button>}
        <p class="small muted">Kept in this tab alone, until it is closed. On the gateway's own machine{" "}
          <code>armory console</code> gives a link that is logged in already.</p>
      </form>
    </main>
  );
}

const hostOf = (url: string): string => {
  try {
    return new URL(url).host;
  } catch {
    return url;
  }
};

/** A page, or what is wrong with it: the way to the others stays. */
function Guarded({ children }: { children: preact.ComponentChildren }) {
  const [broken, again] = useErrorBoundary() as [unknown, () => void];
  return broken === undefined ? <>{children}</>
    : <><h1>Armory console</h1><Failure error={`This page cannot be shown: ${words(broken)}`} retry={again} /></>;
}

function App({ refused }: { refused: string | null }) {
  const [me, setMe] = useState<Me | null>(null);
  const [said, setSaid] = useState<string | null>(refused);
  const [wanted, setWanted] = useState(refused !== null);
  const [at, setAt] = useState(place());
  const [open, setOpen] = useState(false);
  const [shade, setShade] = useState(theme());

  const loads = useRef(0);
  const shownTo = useRef(token());
  const load = useCallback(async (): Promise<void> => {
    const mine = ++loads.current;
    setSaid(null);
    setMe(null); // and the pages of whoever looked before
    shownTo.current = token();
    const known = shownTo.current !== null;
    try {
      const found = await get<Me>("/v1/me");
      if (mine !== loads.current) return; // somebody else has logged in meanwhile
      setMe(found);
      setWanted(false);
    } catch (error) {
      if (mine !== loads.current) return;
      setMe(null);
      const refused = error instanceof Refused && (error.problem.status === 401 || error.problem.status === 403);
      setWanted(refused);
      setSaid(refused && !known ? null : words(error));
    }
  }, []);

  useEffect(() => {
    onUnauthenticated(() => {
      if (token() === null) return;
      keepToken(null);
      setMe(null);
      setWanted(true);
      setSaid("The credential is not accepted (any more).");
    });
    const moved = (): void => {
      if (takeTokenOfLink()) void load();
      setAt(place());
      setOpen(false);
    };
    // gone back to as it was, while its tab has another credential or none
    const restored = (event: PageTransitionEvent): void => {
      if (event.persisted && token() !== shownTo.current) void load();
    };
    addEventListener("hashchange", moved);
    addEventListener("pageshow", restored);
    moved(); // to where it has gone between the first picture and now
    if (refused === null) void load();
    const shaded = (): void => { paint(); setShade(theme()); };
    darkOutside.addEventListener("change", shaded);
    return () => {
      removeEventListener("hashchange", moved);
      removeEventListener("pageshow", restored);
      darkOutside.removeEventListener("change", shaded);
    };
  }, [load, refused]);

  if (wanted) return <Login said={said} done={() => void load()} back={me === null ? null : () => setWanted(false)} />;
  if (me === null)
    return said === null
      ? <main><p role="status">Loading…</p></main>
      : <main><h1>Armory console</h1><Failure error={said} retry={() => void load()} /></main>;

  const shown = PAGES[at]?.admin && !me.admin ? "overview" : at;
  const Shown = (PAGES[shown] as Entry).page;
  const other = shade === "dark" ? "light" : "dark";
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => {
        event.preventDefault();
        document.querySelector<HTMLElement>("main h1")?.focus();
      }}>Skip to content</a>
      <div class="shell">
        <header class={`side ${open ? "" : "closed"}`}>
          <div class="brand">
            <img src="icon.svg" alt="" /> Armory
            <button type="button" class="menu" aria-expanded={open} onClick={() => setOpen(!open)}>Menu</button>
          </div>
          <nav aria-label="Pages">
            {Object.entries(PAGES).filter(([, entry]) => !entry.admin || me.admin).map(([name, entry]) => (
              <a key={name} href={`#/${name}`} aria-current={name === shown ? "page" : undefined} onClick={() => setOpen(false)}>{entry.title}</a>
            ))}
          </nav>
          <div class="who">
            <div>{plain(me.user ?? me.subject)}{me.admin ? " · administrator" : ""}</div>
            <div class="row">
              <button type="button" onClick={() => {
                localStorage.setItem(THEME, other);
                paint();
                setShade(other);
              }}>{other === "dark" ? "Dark" : "Light"}</button>
              {token() !== null
                ? <button type="button" onClick={() => { forget(); void load(); }}>Log out</button>
                : <button type="button" onClick={() => setWanted(true)}>Log in</button>}
            </div>
            <div>{me.title} {me.version} · <a href="../docs">REST API</a></div>
          </div>
        </header>
        <main id="main"><Guarded key={shown}><Shown me={me} /></Guarded></main>
      </div>
    </>
  );
}

takeTokenOfLink();
const root = document.getElementById("app");
const begin = (refused: string | null): void => {
  if (root) render(<App refused={refused} />, root);
};
if (root) render(<main><p role="status">Loading…</p></main>, root); // an issuer may take its time
comeBack().then(() => begin(null), (error: unknown) => begin(words(error)));
