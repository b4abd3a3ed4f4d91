//! The MCP server: answers requests with the toolbox.

use std::sync::{Arc, LazyLock};

use http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult,
    ErrorCode, Implementation, InputResponses, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, ServerCapabilities, ServerConfig, SubscribeRequestParams, SubscriptionFilter,
    Tool as McpTool, ToolAnnotations, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use surface_caller::{Caller, Callers, Conversation};
use toolbox::{Approval, Block, Call, Definition, Memory, Reply, Resumed, Tool, Toolbox};

use crate::approval::{self, Elicitations, Era};
use crate::logging::{self, LogLevel, SetLevel};
use crate::profile;
use crate::progress::Notifier;
use crate::resources;
use crate::seal::{Binding, Seal};
use crate::subscriptions::{self, Followed, Listener, MAX_RESOURCES, Subscriptions, Watches};

/// What a host tells the model about the server.
const INSTRUCTIONS: &str = "Tools that run in a sandbox: a Linux machine of this conversation, separate from the user's. \
    Files and running commands are kept between calls.";

/// The tools as every call looks them up. To generate their schemas takes as long as a short command.
static TOOLS: LazyLock<Vec<McpTool>> = LazyLock::new(|| {
    let tools = Tool::ALL.into_iter().chain(Tool::WITH_ROOT);
    tools.map(|tool| to_mcp(tool.definition())).collect()
});

/// Requests that the server answers and that have parameters.
const WITH_PARAMETERS: [&str; 10] = [
    "completion/complete",
    "initialize",
    "logging/setLevel",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "tools/call",
    "tools/list",
];

/// How calls find their caller.
#[derive(Clone)]
pub(crate) enum Source {
    /// Each request has its own.
    Requests(Arc<dyn Callers>),
    /// All are of one client and one conversation.
    Fixed { toolbox: Toolbox, session: String },
}

/// Serves one connection or one request. Cheap to create.
#[derive(Clone)]
pub struct Server {
    source: Source,
    memory: Memory,
    seal: Seal,
    watches: Watches,
    /// Subscriptions of this connection.
    subscriptions: Arc<Subscriptions>,
    /// Log level of this connection.
    log_level: Arc<LogLevel>,
}

impl Server {
    pub(crate) fn new(source: Source, memory: Memory, watches: Watches, seal: Seal) -> Self {
        Self { source, memory, seal, watches, subscriptions: Arc::default(), log_level: Arc::default() }
    }

    fn toolbox(&self, context: &RequestContext<RoleServer>) -> Result<(Toolbox, Option<String>), String> {
        self.toolbox_with(context, |callers, head| callers.caller(head))
    }

    fn toolbox_with(
        &self,
        context: &RequestContext<RoleServer>,
        caller: impl Fn(&dyn Callers, &Parts) -> Caller,
    ) -> Result<(Toolbox, Option<String>), String> {
        match &self.source {
            Source::Fixed { toolbox, session } => Ok((toolbox.clone(), Some(session.clone()))),
            Source::Requests(callers) => {
                let head = context.extensions.get::<Parts>().ok_or("the request has no head")?;
                let caller = caller(&**callers, head);
                let conversation =
                    Conversation::of(&caller.token_name, &head.headers).map_err(|error| error.to_string())?;
                let toolbox = Toolbox::new(caller.client, conversation.namespace, self.memory.clone())
                    .with_profile(profile::chosen(head)?);
                Ok((toolbox, conversation.session))
            }
        }
    }
}

impl Server {
    /// The call that a client repeats with the answers of its user, if it does.
    fn resumed(
        &self,
        state: Option<&str>,
        answers: &InputResponses,
        binding: &Binding,
    ) -> Result<Option<Resumed>, ErrorData> {
        match state {
            Some(state) => {
                let resume = self.seal.open(state, binding).map_err(|error| invalid(&error.to_string()))?;
                Ok(Some(approval::resumed(resume, answers)))
            }
            // Without the state, the call would start its command again.
            None if !answers.is_empty() => Err(invalid("`inputResponses` needs `requestState`")),
            None => Ok(None),
        }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut implementation = Implementation::new("sandboxd", env!("CARGO_PKG_VERSION"));
        implementation.title = Some("sandboxd".into());
        // There are no prompts and completions. Hosts that request them without looking here get empty lists.
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_prompts()
            .enable_completions();
        let mut info = ServerConfig::new(logging::declared(capabilities.build()));
        info.server_info = implementation;
        info.instructions = Some(INSTRUCTIONS.into());
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let (toolbox, _) = self.toolbox(&context).map_err(|problem| invalid(&problem))?;
        Ok(ListToolsResult::with_all_items(toolbox.definitions().into_iter().map(to_mcp).collect()))
    }

    fn get_tool(&self, name: &str) -> Option<McpTool> {
        TOOLS.iter().find(|tool| tool.name == name).cloned()
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let (toolbox, session) = self.toolbox(&context).map_err(|problem| invalid(&problem))?;
        let found = toolbox.resources(session.as_deref()).await.map_err(|error| failed(&error))?;
        Ok(ListResourcesResult::with_all_items(found.into_iter().map(resources::listed).collect()))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(vec![resources::template()]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let (toolbox, _) = self.toolbox(&context).map_err(|problem| invalid(&problem))?;
        match toolbox.read_resource(&request.uri).await.map_err(|error| failed(&error))? {
            Some(content) => {
                Ok(ReadResourceResult::new(vec![resources::content(request.uri, content)]).into())
            }
            None => Err(resources::not_found(&request.uri)),
        }
    }

    async fn set_level(&self, request: SetLevel, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.log_level.set(request);
        Ok(())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        // A known request whose parameters cannot be read arrives here too.
        if WITH_PARAMETERS.contains(&request.method.as_str()) {
            return Err(invalid(&format!("the parameters of `{}` cannot be read", request.method)));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None))
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscriptions.check(&request.uri).map_err(|error| invalid(&error.to_string()))?;
        let (toolbox, _) = self.toolbox_with(&context, in_background).map_err(|problem| invalid(&problem))?;
        let followed = followed(toolbox, request.uri).await?;
        let listener = match &self.source {
            Source::Fixed { .. } => Listener::Client(context.peer),
            Source::Requests(_) => Listener::Session(context.peer),
        };
        self.subscriptions
            .start(&self.watches, followed, listener)
            .map_err(|error| invalid(&error.to_string()))
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscriptions.end(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let uris = requested.resource_subscriptions.iter().flatten();
        let uris = uris.filter(|uri| resources::is_ours(uri)).take(MAX_RESOURCES).cloned();
        Some(SubscriptionFilter::builder().resource_subscriptions(uris).build())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let (toolbox, _) = self.toolbox(context.request_context()).map_err(|problem| invalid(&problem))?;
        let mut resources = Vec::new();
        for uri in context.accepted().resource_subscriptions.iter().flatten() {
            resources.push(followed(toolbox.clone(), uri.clone()).await?);
        }
        if resources.is_empty() {
            context.cancelled().await;
            return Ok(());
        }
        tokio::select! {
            () = context.cancelled() => {}
            () = subscriptions::listen(&self.watches, resources, context.sink()) => {}
        }
        Ok(())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (toolbox, session) = match self.toolbox(&context) {
            Ok(found) => found,
            // The model and the user read a tool's error, but not an error of the protocol.
            Err(problem) => return Ok(CallToolResult::error(vec![ContentBlock::text(problem)]).into()),
        };
        let arguments = request.arguments.unwrap_or_default();
        let binding = Binding::new(toolbox.namespace(), session.as_deref(), &request.name, &arguments);
        let (state, answers) = (request.request_state, request.input_responses.unwrap_or_default());
        let resumed = self.resumed(state.as_deref(), &answers, &binding)?;
        let notifier = Notifier::new(&context.peer, context.meta.get_progress_token());
        let elicitations = Elicitations::new(&context.peer);
        let approval = match approval::era(&context) {
            None => Approval::Unavailable,
            Some(Era::Legacy) => Approval::During(&elicitations),
            Some(Era::Modern) => Approval::ByResult,
        };
        let (session, cancel) = (session.as_deref(), context.ct.clone());
        let call = Call { session, progress: &notifier, cancel, approval, resumed };
        let mut reply = toolbox
            .call(&request.name, arguments, &call)
            .await
            .map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        self.log_level.report(&context, &reply).await;
        match reply.pending.take() {
            Some(pending) => {
                Ok(approval::input_required(&pending.resume, self.seal.close(&pending.resume, &binding))
                    .into())
            }
            None => Ok(result_of(reply).into()),
        }
    }
}

/// Starts to watch a resource.
async fn followed(toolbox: Toolbox, uri: String) -> Result<Followed, ErrorData> {
    match toolbox.watch_resource(&uri).await {
        Ok(Some(watch)) => Ok(Followed { uri, toolbox, watch }),
        Ok(None) | Err(toolbox::Error::NoFile { .. }) => Err(resources::not_found(&uri)),
        Err(error) => Err(failed(&error)),
    }
}

/// The caller for work that outlives its request.
fn in_background(callers: &dyn Callers, head: &Parts) -> Caller {
    let caller = callers.caller(head);
    Caller { client: caller.background.clone(), ..caller }
}

fn invalid(problem: &str) -> ErrorData {
    ErrorData::invalid_params(problem.to_owned(), None)
}

fn failed(error: &toolbox::Error) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

fn result_of(reply: Reply) -> CallToolResult {
    let content = reply.blocks.into_iter().map(content_of).collect();
    let mut result =
        if reply.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = reply.structured;
    result
}

fn content_of(block: Block) -> ContentBlock {
    match block {
        Block::Text(text) => ContentBlock::text(text),
        Block::Image { data_base64, mime_type } => ContentBlock::image(data_base64, mime_type),
    }
}

fn to_mcp(definition: Definition) -> McpTool {
    let hints = definition.hints;
    let annotations = ToolAnnotations::with_title(definition.title)
        .read_only(hints.read_only)
        .destructive(hints.destructive)
        .idempotent(hints.idempotent)
        .open_world(hints.open_world);
    let mut tool = McpTool::new(definition.name, definition.description, definition.input_schema);
    tool.title = Some(definition.title.into());
    tool.output_schema = definition.output_schema.map(Arc::new);
    tool.annotations = Some(annotations);
    tool
}
