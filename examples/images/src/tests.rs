//! The server with the whole client, in memory.

use mcp_client::McpClient;
use mcp_client::protocol::content::ContentBlock;
use serde_json::json;

use super::server;

#[tokio::test]
async fn images_are_listed_and_shown_and_others_refused() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("dot.PNG"), b"\x89PNG")?;
    std::fs::write(folder.path().join("notes.txt"), "secret")?;
    let inner = folder.path().join("inner");
    std::fs::create_dir(&inner)?;
    let client = McpClient::over(server(folder.path().into()).in_memory()?).connect().await?;
    assert_eq!(client.call("list_images", ()).await?.text(), "dot.PNG");
    let shown = client.call("show_image", json!({"name": "dot.PNG"})).await?.ok()?;
    let [ContentBlock::Image(image)] = shown.content() else { anyhow::bail!("{shown:?}") };
    assert_eq!((image.mime_type.as_str(), image.data.as_str()), ("image/png", "iVBORw=="));
    for (name, problem) in [
        ("cat.png", "no image `cat.png`; list the images first"),
        ("inner/../dot.PNG", "no image `inner/../dot.PNG`; list the images first"),
        ("notes.txt", "`notes.txt` is not an image"),
    ] {
        let refused = client.call("show_image", json!({"name": name})).await?;
        assert_eq!((refused.is_error(), refused.text().as_str()), (true, problem));
    }
    let gone = McpClient::over(server(inner.join("gone")).in_memory()?).connect().await?;
    let failed = gone.call("list_images", ()).await?;
    // The model reads the whole chain of causes.
    assert!(failed.text().starts_with("cannot read the folder ") && failed.text().contains(": "));
    Ok(())
}
