//! Reads whole lists page by page, within limits.

use mcp_protocol::errors::ErrorCode;
use mcp_protocol::lists::SkippedItem;
use mcp_protocol::messages::{Body, Method, OwnedBody, PageParams};
use mcp_protocol::peer::Timeouts;
use mcp_protocol::prompts::{ListPromptsResult, Prompt};
use mcp_protocol::resources::{ListResourceTemplatesResult, ListResourcesResult, Resource, ResourceTemplate};
use mcp_protocol::safe_text::SafeText;
use mcp_protocol::tools::{ListToolsResult, Tool};

use crate::client::McpClient;
use crate::connection::RequestOptions;
use crate::error::{Error, Result};

/// The maximum number of pages of a list.
const MAX_PAGES: usize = 64;
/// The maximum number of items of a list.
const MAX_ITEMS: usize = 4096;
/// The maximum number of bytes of a list.
const MAX_BYTES: usize = 32 << 20;
/// The timeout of one page.
const PAGE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

/// A list, which is incomplete if it exceeded a limit.
#[derive(Debug)]
#[non_exhaustive]
pub struct List<T> {
    /// The items that were read. Together with `skipped` they are at most 4096.
    pub items: Vec<T>,
    /// Items that were left out: they cannot be parsed, or are tools that cannot be called over HTTP.
    pub skipped: Vec<SkippedItem>,
    /// The reason why the list is incomplete: it exceeds 64 pages, 4096 items or 32 MiB, or the server repeated a
    /// cursor. `None` if the list is complete.
    pub cut: Option<&'static str>,
}

impl<T> List<T> {
    fn new() -> Self {
        Self { items: Vec::new(), skipped: Vec::new(), cut: None }
    }
}

/// One page of a list.
struct Page<T> {
    items: Vec<T>,
    skipped: Vec<SkippedItem>,
    next: Option<String>,
    /// True if the page has more items than were read.
    is_cut: bool,
}

impl McpClient {
    /// Returns all tools, sorted by name. If the server declares its capabilities, but not `tools`, returns an empty
    /// list without sending a request.
    ///
    /// # Errors
    /// [`Error::IncompleteList`] if the list exceeds its limits. Also fails if the server responds with an error, a
    /// request times out, or the connection is lost. A tool that cannot be parsed is left out; [`tools`](Self::tools)
    /// returns it in [`List::skipped`].
    pub async fn list_tools(&self) -> Result<Vec<Tool>> {
        let list = self.tools().await?;
        if let Some(problem) = list.cut {
            return Err(Error::IncompleteList { method: Method::ToolsList, problem });
        }
        let mut tools = list.items;
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(tools)
    }

    /// Returns all valid tools in the server's order, and each tool that was left out with the reason. If the list
    /// exceeds its limits, returns the part that was read, with [`List::cut`].
    ///
    /// # Errors
    /// Fails if the server responds with an error, the request times out, or the connection is lost.
    pub async fn tools(&self) -> Result<List<Tool>> {
        if !self.may_offer(self.capabilities().tools.is_some()) {
            return Ok(List::new());
        }
        let mut list = self
            .pages(&Method::ToolsList, |client, body, room| {
                let (page, skipped) = ListToolsResult::raise_each(client.dialect(), body, room)?;
                let is_cut = body.count("tools")? > room;
                Ok(Page { items: page.tools, skipped, next: page.next_cursor, is_cut })
            })
            .await?;
        // If several tools have the same name, the first one is kept: it is the one that a server calls.
        let mut names = std::collections::HashSet::new();
        list.items.retain(|tool| names.insert(tool.name.clone()));
        if let Some(exchanges) = self.exchanges() {
            let unusable = exchanges.tools_listed(&mut list.items);
            if let Some(first) = unusable.first() {
                tracing::warn!(
                    server = %SafeText::name(&self.inner().connection.terms.server),
                    skipped = unusable.len(),
                    first = %SafeText::name(first.name.as_deref().unwrap_or_default()),
                    error = %first.error,
                    "tools that cannot be called over HTTP were left out of the list"
                );
            }
            list.skipped.extend(unusable);
        }
        Ok(list)
    }

    /// Lists the tools if the transport must know them before a tool can be called.
    pub(crate) async fn learn_tools(&self) {
        let Some(exchanges) = self.exchanges() else { return };
        // One caller lists the tools; the others wait for it here.
        let _listing = self.inner().listing.lock().await;
        if exchanges.needs_tools() && self.tools().await.is_err() {
            exchanges.tools_unavailable();
        }
    }

    /// Lists the tools again, without using the cache.
    pub(super) fn refresh_tools(&self) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            self.inner().connection.terms.cache.drop_pages(&Method::ToolsList);
            drop(self.tools().await);
        })
    }

    /// Returns all resources. A resource that cannot be parsed is left out with a logged warning. If the server
    /// declares its capabilities, but not `resources`, returns an empty list without sending a request.
    ///
    /// # Errors
    /// [`Error::IncompleteList`] if the list exceeds its limits. Also fails if the server responds with an error, a
    /// request times out, or the connection is lost.
    pub async fn list_resources(&self) -> Result<Vec<Resource>> {
        if !self.may_offer(self.capabilities().resources.is_some()) {
            return Ok(Vec::new());
        }
        self.whole(&Method::ResourcesList, |client, body, room| {
            let (page, skipped) = ListResourcesResult::raise_each(client.dialect(), body, room)?;
            let is_cut = body.count("resources")? > room;
            Ok(Page { items: page.resources, skipped, next: page.next_cursor, is_cut })
        })
        .await
    }

    /// Returns all resource templates. A template that cannot be parsed is left out with a logged warning. If the
    /// server declares its capabilities, but not `resources`, returns an empty list without sending a request.
    ///
    /// # Errors
    /// [`Error::IncompleteList`] if the list exceeds its limits. Also fails if the server responds with an error, a
    /// request times out, or the connection is lost.
    pub async fn list_resource_templates(&self) -> Result<Vec<ResourceTemplate>> {
        if !self.may_offer(self.capabilities().resources.is_some()) {
            return Ok(Vec::new());
        }
        self.whole(&Method::ResourceTemplatesList, |client, body, room| {
            let (page, skipped) = ListResourceTemplatesResult::raise_each(client.dialect(), body, room)?;
            let is_cut = body.count("resourceTemplates")? > room;
            Ok(Page { items: page.resource_templates, skipped, next: page.next_cursor, is_cut })
        })
        .await
    }

    /// Returns all prompts. A prompt that cannot be parsed is left out with a logged warning. If the server declares
    /// its capabilities, but not `prompts`, returns an empty list without sending a request.
    ///
    /// # Errors
    /// [`Error::IncompleteList`] if the list exceeds its limits. Also fails if the server responds with an error, a
    /// request times out, or the connection is lost.
    pub async fn list_prompts(&self) -> Result<Vec<Prompt>> {
        if !self.may_offer(self.capabilities().prompts.is_some()) {
            return Ok(Vec::new());
        }
        self.whole(&Method::PromptsList, |client, body, room| {
            let (page, skipped) = ListPromptsResult::raise_each(client.dialect(), body, room)?;
            let is_cut = body.count("prompts")? > room;
            Ok(Page { items: page.prompts, skipped, next: page.next_cursor, is_cut })
        })
        .await
    }

    /// Returns true if the server declares the capability, or declares no capabilities at all.
    pub(super) fn may_offer(&self, is_offered: bool) -> bool {
        is_offered || !self.negotiation().declares_capabilities
    }

    /// Reads a whole list. Items that cannot be parsed are left out, with one warning for all of them.
    async fn whole<T>(
        &self,
        method: &Method,
        read: impl Fn(&Self, &Body<'_>, usize) -> Result<Page<T>, mcp_protocol::errors::BodyError>,
    ) -> Result<Vec<T>> {
        let list = self.pages(method, read).await?;
        if let Some(first) = list.skipped.first() {
            tracing::warn!(
                server = %SafeText::name(&self.inner().connection.terms.server),
                %method,
                skipped = list.skipped.len(),
                first = %SafeText::name(first.name.as_deref().unwrap_or_default()),
                error = %first.error,
                "items that cannot be read were left out of the list"
            );
        }
        match list.cut {
            Some(problem) => Err(Error::IncompleteList { method: method.clone(), problem }),
            None => Ok(list.items),
        }
    }

    /// Reads page after page until the list ends or exceeds a limit. `read` parses one page; its last argument is the
    /// maximum number of items to parse.
    async fn pages<T>(
        &self,
        method: &Method,
        read: impl Fn(&Self, &Body<'_>, usize) -> Result<Page<T>, mcp_protocol::errors::BodyError>,
    ) -> Result<List<T>> {
        let mut list = List::new();
        let mut params = PageParams::new();
        let mut seen: Vec<String> = Vec::new();
        let mut bytes = 0;
        loop {
            let body = match self.page(method, &params).await {
                // The server declares no capabilities, so this error means that it has no such list.
                Err(Error::Refused { error: source, .. })
                    if source.code == ErrorCode::MethodNotFound
                        && !self.negotiation().declares_capabilities =>
                {
                    return Ok(list);
                }
                body => body?,
            };
            bytes += body.text().len();
            let room = MAX_ITEMS - list.items.len() - list.skipped.len();
            let page = read(self, &body.body(), room).map_err(|error| Error::unreadable(method, &error))?;
            list.items.extend(page.items);
            list.skipped.extend(page.skipped);
            // A list that has reached a limit and has a further page counts as exceeding the limit.
            let more = usize::from(page.next.is_some());
            list.cut = if page.next.as_ref().is_some_and(|cursor| seen.contains(cursor)) {
                Some("the server repeated a cursor")
            } else if seen.len() + more >= MAX_PAGES {
                Some("it has more than 64 pages")
            } else if page.is_cut || list.items.len() + list.skipped.len() + more > MAX_ITEMS {
                Some("it has more than 4096 items")
            } else if bytes + more > MAX_BYTES {
                Some("it has more than 32 MiB")
            } else {
                None
            };
            if list.cut.is_some() {
                return Ok(list);
            }
            let Some(cursor) = page.next else { return Ok(list) };
            seen.push(cursor.clone());
            params.cursor = Some(cursor);
        }
    }

    /// Returns one page, from the cache or from the server.
    async fn page(&self, method: &Method, params: &PageParams) -> Result<OwnedBody> {
        let cache = &self.inner().connection.terms.cache;
        let wanted = match cache.find(method, params.cursor.as_deref().unwrap_or_default()) {
            Ok(body) => return Ok(body),
            Err(wanted) => wanted,
        };
        let options =
            RequestOptions { timeouts: Timeouts::default().idle(PAGE_TIMEOUT), ..RequestOptions::default() };
        let body = self.send(method, params, options).await;
        match (&body, wanted) {
            (Ok(body), Some(wanted)) if self.dialect().is_modern() => cache.keep(wanted, body),
            (Err(Error::Refused { error: source, .. }), _)
                if params.cursor.is_some() && source.code == ErrorCode::InvalidParams =>
            {
                cache.drop_pages(method);
            }
            _ => {}
        }
        body
    }
}
