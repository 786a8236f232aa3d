//! Files of one directory as resources, and refused access to everything outside of it.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mcp_protocol::completion::{
    CompleteParams, CompleteResult, CompletionArgument, CompletionReference, ResourceReference,
};
use mcp_protocol::errors::ErrorCode;
use mcp_protocol::messages::Method;
use mcp_protocol::resources::{ReadResourceParams, ReadResourceResult};
use mcp_server::{McpServer, RootDir, directory};
use tempfile::TempDir;

use crate::test_client::{TestClient, TestError, TestServer};

/// Creates `root` with files, `root-evil` beside it, and symbolic links from `root` to `root-evil`.
fn tree() -> TempDir {
    let tree = tempfile::tempdir().unwrap();
    let at = |path: &str| tree.path().join(path);
    fs::create_dir_all(at("root/sub")).unwrap();
    fs::create_dir(at("root-evil")).unwrap();
    fs::write(at("root/a.txt"), "inside").unwrap();
    fs::write(at("root/sub/ä.bin"), [0xff, 0]).unwrap();
    fs::write(at("root-evil/secret"), "outside").unwrap();
    symlink("../root-evil/secret", at("root/link")).unwrap();
    symlink("../root-evil", at("root/folder-link")).unwrap();
    symlink("a.txt", at("root/inner-link")).unwrap();
    tree
}

async fn client(tree: &TempDir) -> TestClient {
    let root = RootDir::open(tree.path().join("root")).unwrap();
    McpServer::named("files", "1").template(directory("box:///", "box", &root)).test_client().await.unwrap()
}

async fn read(client: &mut TestClient, path: &str) -> Result<ReadResourceResult, TestError> {
    client.request(&Method::ResourcesRead, &ReadResourceParams::new(format!("box:///{path}"))).await
}

#[tokio::test]
async fn files_inside_are_read_and_paths_outside_are_refused() {
    let tree = tree();
    let mut client = client(&tree).await;
    let text = read(&mut client, "a.txt").await.unwrap();
    assert_eq!(text.contents[0].text.as_deref(), Some("inside"));
    assert_eq!(text.contents[0].uri, "box:///a.txt");
    let bytes = read(&mut client, "sub/%C3%A4.bin").await.unwrap();
    assert_eq!(bytes.contents[0].blob.as_deref(), Some("/wA="));
    let outside = tree.path().join("root-evil/secret");
    for path in [
        "../root-evil/secret",
        "sub/../../root-evil/secret",
        "%2e%2e/root-evil/secret",
        "..%2froot-evil%2fsecret",
        "sub/..%2f..%2froot-evil/secret",
        "link",
        "folder-link/secret",
        "inner-link",
        "a.txt%00",
        "sub",
        "",
        "missing",
        outside.to_str().unwrap(),
    ] {
        match read(&mut client, path).await {
            Err(TestError::Refused(error)) => {
                assert_eq!(error.code, ErrorCode::InvalidParams, "{path}: {error:?}")
            }
            other => panic!("{path}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn symlink_swapped_in_during_a_read_is_not_followed() {
    let tree = tree();
    let root = RootDir::open(tree.path().join("root")).unwrap();
    let (swapped, over) = (tree.path().join("root/swapped"), Arc::new(AtomicBool::new(false)));
    let (kept, link) = (tree.path().join("root/kept"), tree.path().join("root/to-evil"));
    fs::create_dir(&kept).unwrap();
    fs::write(kept.join("secret"), "inside").unwrap();
    symlink("../root-evil", &link).unwrap();
    let ended = Arc::clone(&over);
    let swapping = std::thread::spawn(move || {
        while !ended.load(Ordering::SeqCst) {
            fs::rename(&kept, &swapped).unwrap();
            fs::rename(&swapped, &kept).unwrap();
            fs::rename(&link, &swapped).unwrap();
            fs::rename(&swapped, &link).unwrap();
        }
    });
    let mut inside = 0;
    for _ in 0..20_000 {
        if let Ok(bytes) = root.read("swapped/secret", 100) {
            assert_eq!(bytes, b"inside");
            inside += 1;
        }
    }
    over.store(true, Ordering::SeqCst);
    swapping.join().unwrap();
    assert!(inside > 0, "the folder was never read");
}

#[tokio::test]
async fn pipes_are_not_opened_and_large_files_not_read() {
    let tree = tree();
    let pipe = tree.path().join("root/pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    fs::File::create(tree.path().join("root/large")).unwrap().set_len((6 << 20) + 1).unwrap();
    let mut client = client(&tree).await;
    assert!(read(&mut client, "pipe").await.is_err());
    let Err(TestError::Refused(error)) = read(&mut client, "large").await else {
        panic!("the file was read")
    };
    assert!(error.message.contains("more than 6291456 bytes"), "{}", error.message);
}

#[tokio::test]
async fn paths_complete_folder_by_folder() {
    let tree = tree();
    let mut client = client(&tree).await;
    for (partial, expected) in [
        ("", &["a.txt", "sub/"][..]),
        ("s", &["sub/"]),
        ("sub/", &["sub/ä.bin"]),
        ("folder-link/", &[]),
        ("../", &[]),
    ] {
        let params = CompleteParams::new(
            CompletionReference::Resource(ResourceReference::new("box:///{+path}")),
            CompletionArgument::new("path", partial),
        );
        let result: CompleteResult = client.request(&Method::Complete, &params).await.unwrap();
        assert_eq!(result.completion.values, expected, "{partial}");
    }
}
