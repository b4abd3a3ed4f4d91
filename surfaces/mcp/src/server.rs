//! The MCP server: answers requests with the toolbox.

use std::sync::Arc;

use http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool as McpTool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use toolbox::{Block, Call, Definition, Memory, Reply, Tool, Toolbox};

use crate::caller::{Callers, Conversation};
use crate::progress::Notifier;

/// What a host tells the model about the server.
const INSTRUCTIONS: &str = "Tools that run in a sandbox: a Linux machine of this conversation, separate from the user's. \
    Files and running commands are kept between calls.";

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
}

impl Server {
    pub(crate) fn new(source: Source, memory: Memory) -> Self {
        Self { source, memory }
    }

    fn toolbox(&self, context: &RequestContext<RoleServer>) -> Result<(Toolbox, Option<String>), String> {
        match &self.source {
            Source::Fixed { toolbox, session } => Ok((toolbox.clone(), Some(session.clone()))),
            Source::Requests(callers) => {
                let head = context.extensions.get::<Parts>().ok_or("the request has no head")?;
                let caller = callers.caller(head);
                let conversation =
                    Conversation::of(&caller.token_name, &head.headers).map_err(|error| error.to_string())?;
                let toolbox = Toolbox::new(caller.client, conversation.namespace, self.memory.clone());
                Ok((toolbox, conversation.session))
            }
        }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let mut implementation = Implementation::new("sandboxd", env!("CARGO_PKG_VERSION"));
        implementation.title = Some("sandboxd".into());
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = implementation;
        info.instructions = Some(INSTRUCTIONS.into());
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = Tool::ALL.into_iter().map(|tool| to_mcp(tool.definition())).collect();
        Ok(ListToolsResult::with_all_items(tools))
    }

    fn get_tool(&self, name: &str) -> Option<McpTool> {
        Tool::of_name(name).map(|tool| to_mcp(tool.definition()))
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
        let notifier = Notifier::new(&context.peer, context.meta.get_progress_token());
        let call = Call { session: session.as_deref(), progress: &notifier, cancel: context.ct.clone() };
        let arguments = request.arguments.unwrap_or_default();
        let reply = toolbox
            .call(&request.name, arguments, &call)
            .await
            .map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        Ok(result_of(reply).into())
    }
}

fn result_of(reply: Reply) -> CallToolResult {
    let content = reply.blocks.into_iter().map(|Block::Text(text)| ContentBlock::text(text)).collect();
    if reply.is_error {
        return CallToolResult::error(content);
    }
    let mut result = CallToolResult::success(content);
    result.structured_content = reply.structured;
    result
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
    tool.output_schema = Some(Arc::new(definition.output_schema));
    tool.annotations = Some(annotations);
    tool
}
