//! Shows the images of a folder. Its tools use `anyhow` and return images: `cargo run -p example-images -- FOLDER`
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use mcp_server::{Image, McpServer, state};

struct Folder(PathBuf);

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Show {
    /// The name of an image, as `list_images` returns it.
    name: String,
}

impl Folder {
    async fn names(&self) -> anyhow::Result<Vec<String>> {
        let mut names = Vec::new();
        let opened = tokio::fs::read_dir(&self.0).await;
        let mut entries = opened.with_context(|| format!("cannot read the folder {}", self.0.display()))?;
        while let Some(entry) = entries.next_entry().await? {
            // Symbolic links are left out: they can lead out of the folder.
            let is_file = entry.file_type().await?.is_file();
            let name = entry.file_name().into_string().ok();
            names.extend(name.filter(|name| is_file && media_type(name).is_some()));
        }
        names.sort();
        Ok(names)
    }

    async fn list(&self) -> anyhow::Result<String> {
        Ok(self.names().await?.join("\n"))
    }

    async fn show(&self, Show { name }: Show) -> anyhow::Result<Image> {
        let Some(media_type) = media_type(&name) else { bail!("`{name}` is not an image") };
        // Only a name that was listed: a model could also pass a path such as `../../secret.png`.
        if !self.names().await?.contains(&name) {
            bail!("no image `{name}`; list the images first");
        }
        let bytes = tokio::fs::read(self.0.join(&name)).await;
        Ok(Image::new(media_type, bytes.with_context(|| format!("cannot read `{name}`"))?))
    }
}

fn media_type(name: &str) -> Option<&'static str> {
    match name.rsplit_once('.')?.1.to_ascii_lowercase().as_str() {
        "png" => Some("image/png"),
        "jpg" | "jpeg" => Some("image/jpeg"),
        "gif" => Some("image/gif"),
        "webp" => Some("image/webp"),
        _ => None,
    }
}

fn server(folder: PathBuf) -> McpServer {
    let folder = state(Folder(folder));
    McpServer::named("images", env!("CARGO_PKG_VERSION"))
        .tool(folder.tool("list_images", Folder::list).description("Lists the images.").read_only())
        .tool(folder.tool("show_image", Folder::show).description("Shows an image.").read_only())
}

async fn run() -> anyhow::Result<()> {
    let folder = std::env::args_os().nth(1).context("usage: images FOLDER")?;
    server(folder.into()).serve_stdio().await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    if let Err(error) = run().await {
        eprintln!("{error:#}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests;
