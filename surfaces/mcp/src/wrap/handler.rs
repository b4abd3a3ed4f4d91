//! The server that a host sees: passes requests on to a wrapped server.
//!
//! The host may use any revision. The wrapped server gets one with a handshake. Features that it does not need are not
//! passed on: subscriptions, changes of lists, logs and extensions.

use std::sync::{Arc, OnceLock};

use futures::FutureExt;
use futures::future::BoxFuture;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, CompleteRequestParams,
    CompleteResult, ContentBlock, DiscoverResult, ErrorCode, Extensions, GetPromptRequestParams,
    GetPromptResponse, GetPromptResult, InitializeRequestParams, InitializeResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, ProgressToken, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, ServerCapabilities, ServerConfig, ServerRequest,
};
use rmcp::service::{Peer, RequestContext};
use rmcp::transport::streamable_http_server::SessionRestoreMarker;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::listener::Listener;
use super::registrations::Registrations;
use super::tools::ToolList;
use super::upstream::{Problem, Running};

/// Attempts of a request that a server has not got because it had just ended.
const ATTEMPTS: usize = 3;

/// Maximum number of characters of a server's description of itself.
const MAX_INSTRUCTIONS: usize = 16 * 1024;

/// Serves one connection or one request. Cheap to create.
#[derive(Clone)]
pub(super) struct Wrapped {
    registrations: Registrations,
    /// The server's description of itself, once it is known.
    info: Arc<OnceLock<ServerConfig>>,
}

impl Wrapped {
    pub(super) fn new(registrations: Registrations) -> Self {
        Self { registrations, info: Arc::default() }
    }

    /// Starts the server and returns its description of itself.
    async fn describe(&self, extensions: &Extensions) -> Result<ServerConfig, ErrorData> {
        let describe = async {
            let target = self.registrations.target(extensions).await?;
            let running = target.upstream.running(&target.client, &target.launch).await;
            running.map(|running| config_of(&running)).map_err(|problem| problem.to_string())
        };
        let config = describe.await.map_err(|problem| failed(&problem))?;
        Ok(self.info.get_or_init(|| config).clone())
    }

    /// The server of a request, started, and its approved tools.
    async fn approved(&self, extensions: &Extensions) -> Result<(Arc<Running>, Arc<ToolList>), String> {
        let target = self.registrations.target(extensions).await?;
        let running = target.upstream.running(&target.client, &target.launch).await;
        let running = running.map_err(|problem| problem.to_string())?;
        let tools = running.tools().await.map_err(|problem| problem.to_string())?;
        self.registrations.check(&target, &tools).await?;
        Ok((running, tools))
    }

    /// Sends a request to the server. If it ends before it gets the request, starts it again, and checks its tools again.
    async fn request(
        &self,
        method: &str,
        params: Value,
        extensions: &Extensions,
        listener: &Host,
    ) -> Result<Value, Failure> {
        for _ in 0..ATTEMPTS {
            let (running, _) = self.approved(extensions).await.map_err(Failure::Here)?;
            match running.request(method, params.clone(), listener).await {
                Ok(Some(result)) => return Ok(result),
                Ok(None) => {}
                Err(Problem::Refused(error)) => return Err(Failure::Refused(error)),
                Err(other) => return Err(Failure::Here(other.to_string())),
            }
        }
        Err(Failure::Here("the server ends before it gets the call".into()))
    }

    /// Passes a request on.
    async fn pass<T: DeserializeOwned>(
        &self,
        method: &str,
        params: impl Serialize,
        context: &RequestContext<RoleServer>,
    ) -> Result<T, Failure> {
        let (listener, params) = (Host::of(context), params_of(params));
        let request = self.request(method, params, &context.extensions, &listener);
        let mut result = tokio::select! {
            result = request => result?,
            () = context.ct.cancelled() => return Err(Failure::Here("the call was cancelled".into())),
        };
        if let Some(fields) = result.as_object_mut() {
            // The library removes it for hosts with an older revision.
            fields.insert("resultType".into(), "complete".into());
        }
        serde_json::from_value(result)
            .map_err(|error| Failure::Here(format!("the server's result is not valid: {error}")))
    }

    async fn pass_or_fail<T: DeserializeOwned>(
        &self,
        method: &str,
        params: impl Serialize,
        context: &RequestContext<RoleServer>,
    ) -> Result<T, ErrorData> {
        self.pass(method, params, context).await.map_err(Failure::into_error)
    }
}

impl ServerHandler for Wrapped {
    fn get_info(&self) -> ServerConfig {
        let unknown = || ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        self.info.get().cloned().unwrap_or_else(unknown)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        // A reopened session was described before. Its request starts the server, or reports why it cannot be started.
        if context.extensions.get::<SessionRestoreMarker>().is_none() {
            unless_cancelled(&context, self.describe(&context.extensions)).await?;
        }
        context.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let config = unless_cancelled(&context, self.describe(&context.extensions)).await?;
        Ok(DiscoverResult::from_server_info(
            ServerHandler::supported_protocol_versions(self).into_owned(),
            config,
        ))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let approved = self.approved(&context.extensions);
        let approved = approved.map(|approved| approved.map_err(|problem| failed(&problem)));
        let (_, tools) = unless_cancelled(&context, approved).await?;
        serde_json::from_value(json!({ "tools": tools.tools, "resultType": "complete" }))
            .map_err(|error| failed(&format!("the server's tool list is not valid: {error}")))
    }

    async fn call_tool(
        &self,
        mut request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // The server's revision does not have them.
        (request.input_responses, request.request_state) = (None, None);
        match self.pass::<CallToolResult>("tools/call", request, &context).await {
            Ok(result) => Ok(result.into()),
            // The model and the user read a tool's error, but not an error of the protocol.
            Err(Failure::Here(problem)) => {
                Ok(CallToolResult::error(vec![ContentBlock::text(problem)]).into())
            }
            Err(refused) => Err(refused.into_error()),
        }
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.pass_or_fail("prompts/list", request, &context).await
    }

    async fn get_prompt(
        &self,
        mut request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        (request.input_responses, request.request_state) = (None, None);
        let result = self.pass_or_fail::<GetPromptResult>("prompts/get", request, &context).await;
        result.map(GetPromptResponse::Complete)
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.pass_or_fail("resources/list", request, &context).await
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.pass_or_fail("resources/templates/list", request, &context).await
    }

    async fn read_resource(
        &self,
        mut request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        (request.input_responses, request.request_state) = (None, None);
        let result = self.pass_or_fail::<ReadResourceResult>("resources/read", request, &context).await;
        result.map(ReadResourceResponse::Complete)
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        self.pass_or_fail("completion/complete", request, &context).await
    }
}

/// Why a request has no result.
enum Failure {
    /// The server did not get it, or did not answer.
    Here(String),
    /// The server's error.
    Refused(Value),
}

impl Failure {
    fn into_error(self) -> ErrorData {
        match self {
            Self::Here(problem) => failed(&problem),
            Self::Refused(error) => {
                let code =
                    error.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
                let message =
                    error.get("message").and_then(Value::as_str).unwrap_or("the server reports an error");
                let code = code.map_or(ErrorCode::INTERNAL_ERROR, ErrorCode);
                ErrorData::new(code, message.to_owned(), error.get("data").cloned())
            }
        }
    }
}

/// Ends the work if the host cancels the request.
async fn unless_cancelled<T>(
    context: &RequestContext<RoleServer>,
    work: impl Future<Output = Result<T, ErrorData>>,
) -> Result<T, ErrorData> {
    tokio::select! {
        result = work => result,
        () = context.ct.cancelled() => Err(failed("the request was cancelled")),
    }
}

fn failed(problem: &str) -> ErrorData {
    ErrorData::internal_error(problem.to_owned(), None)
}

/// Parameters for the server, without fields of the host's revision.
fn params_of(params: impl Serialize) -> Value {
    let mut params = serde_json::to_value(params).unwrap_or_default();
    match params.as_object_mut() {
        Some(fields) => {
            fields.remove("_meta");
            params
        }
        None => json!({}),
    }
}

/// Description of the server that is sent to the host.
fn config_of(running: &Running) -> ServerConfig {
    let has = |capability: &str| running.info.pointer(&format!("/capabilities/{capability}")).is_some();
    let mut capabilities = ServerCapabilities::builder().enable_tools().build();
    capabilities.prompts = has("prompts").then(Default::default);
    capabilities.resources = has("resources").then(Default::default);
    capabilities.completions = has("completions").then(Default::default);
    let mut config = ServerConfig::new(capabilities);
    if let Some(info) =
        running.info.get("serverInfo").and_then(|info| serde_json::from_value(info.clone()).ok())
    {
        config.server_info = info;
    }
    let instructions = running.info.get("instructions").and_then(Value::as_str);
    config.instructions = instructions.map(|text| text.chars().take(MAX_INSTRUCTIONS).collect());
    config
}

/// The host of a request.
struct Host {
    peer: Peer<RoleServer>,
    progress: Option<ProgressToken>,
    /// What it offers to servers, if its revision has requests of servers.
    offers: Option<ClientCapabilities>,
}

impl Host {
    fn of(context: &RequestContext<RoleServer>) -> Self {
        let is_legacy =
            context.protocol_version().is_some_and(|version| version < ProtocolVersion::V_2026_07_28);
        Self {
            peer: context.peer.clone(),
            progress: context.meta.get_progress_token(),
            offers: context.client_capabilities().filter(|_| is_legacy),
        }
    }

    /// The request for the host, if it accepts such requests.
    fn request(&self, method: &str, params: Value) -> Option<ServerRequest> {
        let offers = json!(self.offers.as_ref()?);
        let capability = match method {
            "elicitation/create" => "elicitation",
            "sampling/createMessage" => "sampling",
            _ => return None,
        };
        offers.get(capability)?;
        serde_json::from_value(json!({ "method": method, "params": params })).ok()
    }
}

impl Listener for Host {
    fn wants_progress(&self) -> bool {
        self.progress.is_some()
    }

    fn progress(&self, mut params: Value) -> BoxFuture<'_, ()> {
        async move {
            let Some(token) = &self.progress else { return };
            params["progressToken"] = json!(token);
            if let Ok(progress) = serde_json::from_value::<ProgressNotificationParam>(params) {
                // A host that has left needs no progress.
                let _ = self.peer.notify_progress(progress).await;
            }
        }
        .boxed()
    }

    fn ask(&self, method: String, params: Value) -> BoxFuture<'_, Option<Value>> {
        async move {
            let request = self.request(&method, params)?;
            let answer = self.peer.send_request(request).await.ok()?;
            serde_json::to_value(answer).ok()
        }
        .boxed()
    }
}
