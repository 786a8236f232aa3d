//! Whole lists, page by page, with an end.

use mcp_protocol::dialect::Raise;
use mcp_protocol::errors::ErrorCode;
use mcp_protocol::messages::{Body, KeptBody, Method, PageParams};
use mcp_protocol::peer::Clocks;
use mcp_protocol::prompts::{ListPromptsResult, Prompt};
use mcp_protocol::resources::{ListResourceTemplatesResult, ListResourcesResult, Resource, ResourceTemplate};
use mcp_protocol::tools::{ListToolsResult, SkippedTool, Tool};

use crate::client::McpClient;
use crate::connection::Manner;
use crate::error::{Error, Result};

/// The most pages of a list.
const PAGES: usize = 64;
/// The most items.
const ITEMS: usize = 4096;
/// The most bytes.
const BYTES: usize = 32 << 20;
/// How long a page may take.
const PAGE: std::time::Duration = std::time::Duration::from_secs(30);

/// A list, as far as it could be read.
#[derive(Debug)]
#[non_exhaustive]
pub struct List<T> {
    /// What is in it.
    pub items: Vec<T>,
    /// Tools that could not be read and were left out.
    pub skipped: Vec<SkippedTool>,
    /// Why it is not whole, if it is not.
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
    skipped: Vec<SkippedTool>,
    next: Option<String>,
}

impl McpClient {
    /// All tools, sorted by name. A server that offers none is not asked.
    ///
    /// # Errors
    /// [`Error::Endless`] when the list does not end, otherwise as every request. One tool that cannot be read does not
    /// lose the others; [`tools`](Self::tools) tells of it.
    pub async fn list_tools(&self) -> Result<Vec<Tool>> {
        let list = self.tools().await?;
        if let Some(problem) = list.cut {
            return Err(Error::Endless { method: Method::ToolsList, problem });
        }
        let mut tools = list.items;
        tools.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(tools)
    }

    /// All tools in the server's order, as far as they can be read, with what was left out and why.
    ///
    /// # Errors
    /// As every request.
    pub async fn tools(&self) -> Result<List<Tool>> {
        if !self.may_offer(self.capabilities().tools.is_some()) {
            return Ok(List::new());
        }
        let mut list = self
            .pages(&Method::ToolsList, |client, body| {
                let (page, skipped) = ListToolsResult::raise_each(client.dialect(), body)?;
                Ok(Page { items: page.tools, skipped, next: page.next_cursor })
            })
            .await?;
        // The first of several with one name is the one that a server would call.
        let mut names = std::collections::HashSet::new();
        list.items.retain(|tool| names.insert(tool.name.clone()));
        #[cfg(feature = "http")]
        if let Some(endpoint) = self.endpoint().filter(|_| self.dialect().is_modern()) {
            for (tool, error) in endpoint.learn(&mut list.items) {
                let name = mcp_protocol::visible::Visible::new(&tool.name).at_most(80);
                tracing::warn!(tool = %name, %error, "cannot be called over HTTP");
                list.skipped.push(SkippedTool::new(Some(tool.name), error));
            }
        }
        Ok(list)
    }

    /// All resources. A server that offers none is not asked.
    ///
    /// # Errors
    /// [`Error::Endless`] when the list does not end, otherwise as every request.
    pub async fn list_resources(&self) -> Result<Vec<Resource>> {
        if !self.may_offer(self.capabilities().resources.is_some()) {
            return Ok(Vec::new());
        }
        self.whole(&Method::ResourcesList, |page: ListResourcesResult| (page.resources, page.next_cursor))
            .await
    }

    /// All resource templates. A server that offers no resources is not asked.
    ///
    /// # Errors
    /// [`Error::Endless`] when the list does not end, otherwise as every request.
    pub async fn list_resource_templates(&self) -> Result<Vec<ResourceTemplate>> {
        if !self.may_offer(self.capabilities().resources.is_some()) {
            return Ok(Vec::new());
        }
        let parts = |page: ListResourceTemplatesResult| (page.resource_templates, page.next_cursor);
        self.whole(&Method::ResourceTemplatesList, parts).await
    }

    /// All prompts. A server that offers none is not asked.
    ///
    /// # Errors
    /// [`Error::Endless`] when the list does not end, otherwise as every request.
    pub async fn list_prompts(&self) -> Result<Vec<Prompt>> {
        if !self.may_offer(self.capabilities().prompts.is_some()) {
            return Ok(Vec::new());
        }
        self.whole(&Method::PromptsList, |page: ListPromptsResult| (page.prompts, page.next_cursor)).await
    }

    /// True if the server says that it has something, or says nothing at all.
    fn may_offer(&self, is_offered: bool) -> bool {
        is_offered || !self.verdict().is_announced
    }

    async fn whole<P: Raise, T>(
        &self,
        method: &Method,
        parts: impl Fn(P) -> (Vec<T>, Option<String>),
    ) -> Result<Vec<T>> {
        let list = self
            .pages(method, |client, body| {
                let (items, next) = parts(client.dialect().raise(body)?);
                Ok(Page { items, skipped: Vec::new(), next })
            })
            .await?;
        match list.cut {
            Some(problem) => Err(Error::Endless { method: method.clone(), problem }),
            None => Ok(list.items),
        }
    }

    async fn pages<T>(
        &self,
        method: &Method,
        read: impl Fn(&Self, &Body<'_>) -> Result<Page<T>, mcp_protocol::errors::BodyError>,
    ) -> Result<List<T>> {
        let mut list = List::new();
        let mut params = PageParams::new();
        let mut seen: Vec<String> = Vec::new();
        let mut bytes = 0;
        loop {
            let body = match self.page(method, &params).await {
                // It had to be asked.
                Err(Error::Refused { source, .. })
                    if source.code == ErrorCode::MethodNotFound && !self.verdict().is_announced =>
                {
                    return Ok(list);
                }
                body => body?,
            };
            bytes += body.text().len();
            let page = read(self, &body.body()).map_err(|error| Error::unreadable(method, &error))?;
            list.items.extend(page.items);
            list.skipped.extend(page.skipped);
            let Some(cursor) = page.next else { return Ok(list) };
            seen.push(cursor.clone());
            list.cut = if seen[..seen.len() - 1].contains(&cursor) {
                Some("a cursor was given a second time")
            } else if seen.len() >= PAGES {
                Some("it has more than 64 pages")
            } else if list.items.len() >= ITEMS {
                Some("it has more than 4096 items")
            } else if bytes >= BYTES {
                Some("it has more than 32 MiB")
            } else {
                None
            };
            if list.cut.is_some() {
                list.items.truncate(ITEMS);
                return Ok(list);
            }
            params.cursor = Some(cursor);
        }
    }

    /// One page, as it was kept or as it is now.
    async fn page(&self, method: &Method, params: &PageParams) -> Result<KeptBody> {
        let cache = &self.inner().connection.agreed.cache;
        let wanted = match cache.find(method, params.cursor.as_deref().unwrap_or_default()) {
            Ok(body) => return Ok(body),
            Err(wanted) => wanted,
        };
        let manner = Manner { clocks: Clocks::default().idle(PAGE), ..Manner::default() };
        let body = self.send(method, params, manner).await;
        match (&body, wanted) {
            (Ok(body), Some(wanted)) if self.dialect().is_modern() => cache.keep(wanted, body),
            (Err(Error::Refused { source, .. }), _)
                if params.cursor.is_some() && source.code == ErrorCode::InvalidParams =>
            {
                cache.drop_pages(method);
            }
            _ => {}
        }
        body
    }
}
