// What the REST API answers with; described in /openapi.json.

export interface Me {
  subject: string;
  user: string | null;
  method: string;
  scopes: string[];
  admin: boolean;
  title: string;
  version: string;
  endpoints: string[];
  rankers: string[];
  threshold: number | null;
  ranker: string | null;
  max_tools: number | null;
  principals: string[];
  features: {
    search: boolean;
    accounts: boolean;
    api_keys: boolean;
    agent: boolean;
    labels: boolean;
    restart: boolean;
    replicas: boolean;
    anonymous: boolean;
  };
}

export interface Upstream {
  server: string;
  state: string;
  era: string | null;
  protocol_version: string;
  tools: number;
  uptime: number;
  transport: string;
  since_s: number;
  error?: string | null;
  attempts?: number;
  restarts?: number;
  awaited?: string | null;
  sessions?: number;
  in_flight?: number;
  queued?: number;
  breaker?: string;
  dropped_count?: number;
  dropped?: { list: string; entry: string; reason: string }[];
}

export interface Login {
  server: string;
  connected: boolean;
  issuer: string | null;
  scopes: string[];
}

export interface Candidate {
  name: string;
  server: string;
  title: string;
  description: string;
  score: number;
  probability: number;
  raw_score: number;
  signals: Record<string, number>;
  reason: string;
  withheld: string | null;
  tokens: number;
}

export interface Found {
  listed: string[];
  pinned: string[];
  candidates: Candidate[];
  ranked: number;
  visible: number;
  threshold: number;
  refused: boolean;
  degraded: string | null;
  hidden: { endpoint: number; policy: number; packs: number; apps: number } | null;
  tokens: { all: number; listed: number };
  ms: Record<string, number>;
}

export interface Label {
  query: string;
  right: string[];
  wrong: string[];
  none: boolean;
}

export interface ToolRow {
  name: string;
  server: string;
  title: string;
  description: string;
  tags: string[];
  category: string | null;
  tokens: number;
  hints: string[];
}

export interface ToolDetail extends ToolRow {
  original_name: string;
  fingerprint: string;
  pinned: boolean;
  definition: Record<string, unknown>;
  usage: { uses: number; error_rate: number; p50_ms: number; p99_ms: number; last_used_at_ms: number } | null;
}

export interface ActivityEntry {
  process: string; // whose number it is
  seq: number;
  at_ms: number;
  kind: "call" | "listing" | "search";
  who: string;
  what: string;
  server: string | null;
  ok: boolean | null;
  ms: number;
  found: string[];
  visible: number;
  saved_tokens: number;
  degraded: string | null;
  trace: string | null;
  contents: boolean;
}
