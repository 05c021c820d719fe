//! A client of the Rust SDK: connects to a server, does what a client can do, and writes what it
//! saw as one JSON object.
//!
//! ```text
//! client URL REVISION FOLDER PREFIX
//! ```
//!
//! URL is the everything server or a gateway in front of it, REVISION what to speak, FOLDER the
//! client's root, PREFIX what stands before the names of the server's tools.

use std::{env, error::Error, time::Duration};

use rmcp::{
    ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData, RoleClient,
    model::*,
    service::{NotificationContext, RequestContext, RunningService},
    transport::StreamableHttpClientTransport,
};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

type Fault = Box<dyn Error>;
type Session = RunningService<RoleClient, Answers>;

const BOUND: Duration = Duration::from_secs(60);
const RESOURCE: &str = "demo://resource/dynamic/text/1";

/// What the client declares, answers, and hears of.
#[derive(Clone)]
struct Answers {
    revision: ProtocolVersion,
    root: String,
    progress: UnboundedSender<()>,
    updated: UnboundedSender<String>,
}

#[expect(deprecated, reason = "roots and sampling are what is looked at")]
impl ClientHandler for Answers {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(RootsCapabilities::default());
        capabilities.sampling = Some(SamplingCapability::default());
        capabilities.elicitation = Some(ElicitationCapability::default());
        ClientConfig::new(capabilities, Implementation::new("rust", "1"))
            .with_protocol_version(self.revision.clone())
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let said = SamplingMessage::assistant_text("Paris, of course");
        Ok(CreateMessageResult::new(said, "scripted".into()))
    }

    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(vec![Root::new(&self.root).with_name("mine")]))
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let given = json!({"name": "Ada", "check": true});
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(given))
    }

    async fn on_progress(&self, _: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let _ = self.progress.send(());
    }

    async fn on_resource_updated(
        &self,
        params: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let _ = self.updated.send(params.uri);
    }
}

/// A connected client, and what reaches it unasked.
struct Client {
    session: Session,
    prefix: String,
    progress: UnboundedReceiver<()>,
    updated: UnboundedReceiver<String>,
}

impl Client {
    async fn connect(url: &str, revision: &str, folder: &str, prefix: &str) -> Result<Self, Fault> {
        let revision: ProtocolVersion = serde_json::from_value(json!(revision))?;
        let lifecycle = if revision.has_initialize() {
            ClientLifecycleMode::Initialize
        } else {
            ClientLifecycleMode::Discover { preferred_versions: vec![revision.clone()] }
        };
        let (told, progress) = unbounded_channel();
        let (changed, updated) = unbounded_channel();
        let root = format!("file://{folder}");
        let answers = Answers { revision, root, progress: told, updated: changed };
        let transport = StreamableHttpClientTransport::from_uri(url);
        let session = answers.serve_with_lifecycle(transport, lifecycle).await?;
        Ok(Self { session, prefix: prefix.into(), progress, updated })
    }

    fn revision(&self) -> Result<ProtocolVersion, Fault> {
        Ok(self.session.peer_info().ok_or("no server info")?.protocol_version.clone())
    }

    async fn list(&self, meta: Value) -> Result<Vec<String>, Fault> {
        let params: PaginatedRequestParams = serde_json::from_value(json!({"_meta": meta}))?;
        let listed = self.session.list_tools(Some(params)).await?;
        Ok(listed.tools.into_iter().map(|tool| tool.name.into_owned()).collect())
    }

    async fn call(&self, tool: &str, arguments: Value) -> Result<String, Fault> {
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let name = format!("{}{tool}", self.prefix);
        let params = CallToolRequestParams::new(name).with_arguments(arguments);
        let result = self.session.call_tool(params).await.map_err(|e| format!("{tool}: {e}"))?;
        let texts = result.content.iter().filter_map(|block| block.as_text());
        Ok(texts.map(|block| block.text.as_str()).collect::<Vec<_>>().join(" "))
    }

    /// Hears of the progress of one call, and gives another one up.
    async fn long(&mut self) -> Result<(usize, bool), Fault> {
        const TOOL: &str = "trigger-long-running-operation";
        self.call(TOOL, json!({"duration": 0.2, "steps": 2})).await?;
        let mut heard = 0;
        while heard < 2 {
            self.progress.recv().await.ok_or("no progress")?;
            heard += 1;
        }
        let (told, mut progress) = unbounded_channel();
        std::mem::swap(&mut self.progress, &mut progress);
        drop(told);
        let endless = self.call(TOOL, json!({"duration": 600, "steps": 6000}));
        let canceled = tokio::select! {
            _ = endless => false,
            first = progress.recv() => first.is_some(),
        };
        Ok((heard, canceled))
    }

    /// Subscribes to a resource, has the server change it, and hears of that.
    async fn watched(&mut self) -> Result<(bool, String), Fault> {
        let resources = self.session.list_resources(None).await?.resources;
        let before = resources.iter().find_map(|entry| entry.uri.split_once("demo://"));
        let (before, _) = before.ok_or("no resource of the server")?;
        let uri = format!("{before}{RESOURCE}");
        let read = self.session.read_resource(ReadResourceRequestParams::new(&uri)).await?;
        let read = read.contents.len() == 1;
        let heard = if self.revision()?.has_initialize() {
            #[expect(deprecated, reason = "the way of this revision")]
            self.session.subscribe(SubscribeRequestParams::new(&uri)).await?;
            self.call("toggle-subscriber-updates", json!({})).await?;
            self.updated.recv().await.ok_or("no update")?
        } else {
            let filter = SubscriptionFilter::builder().resource_subscription(&uri).build();
            let mut listening = self.session.listen(filter).await?;
            self.call("toggle-subscriber-updates", json!({})).await?;
            match listening.next().await? {
                Some(ServerNotification::ResourceUpdatedNotification(told)) => told.params.uri,
                other => return Err(format!("instead of an update: {other:?}").into()),
            }
        };
        Ok((read, if heard == uri { RESOURCE.into() } else { heard }))
    }
}

/// Does everything once, then connects anew and calls again.
async fn look(url: &str, revision: &str, folder: &str, prefix: &str) -> Result<Value, Fault> {
    let mut client = Client::connect(url, revision, folder, prefix).await?;
    let spoken = client.revision()?;
    let tools = client.list(json!({})).await?;
    let found = client.list(json!({"dev.armory/query": "add two numbers"})).await?;
    let echo = client.call("echo", json!({"message": "hello"})).await?;
    let question = json!({"prompt": "capital?", "maxTokens": 20});
    let sampled = client.call("trigger-sampling-request", question).await?;
    let elicited = client.call("trigger-elicitation-request", json!({})).await?;
    let roots = client.call("get-roots-list", json!({})).await?;
    let (progress, canceled) = client.long().await?;
    let (read, updated) = client.watched().await?;
    client.session.close().await?;
    let mut client = Client::connect(url, revision, folder, prefix).await?;
    let again = client.call("echo", json!({"message": "again"})).await?;
    client.session.close().await?;
    Ok(json!({
        "revision": spoken, "tools": tools, "found": found, "echo": echo, "progress": progress,
        "canceled": canceled, "sampled": sampled, "elicited": elicited, "roots": roots,
        "read": read, "updated": updated, "again": again,
    }))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Fault> {
    let given: Vec<String> = env::args().skip(1).collect();
    let [url, revision, folder, prefix] = given.as_slice() else {
        return Err("client URL REVISION FOLDER PREFIX".into());
    };
    let seen = tokio::time::timeout(BOUND, look(url, revision, folder, prefix)).await??;
    println!("{seen}");
    Ok(())
}
