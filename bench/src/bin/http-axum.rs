//! An echo server with bare axum: what HTTP and JSON cost when nothing is checked. Prints its port.

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt;
use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
struct Call<'a> {
    id: u64,
    #[serde(borrow)]
    params: Params<'a>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    arguments: Arguments<'a>,
}

#[derive(Deserialize)]
struct Arguments<'a> {
    text: &'a str,
}

#[derive(Serialize)]
struct Answer<'a> {
    jsonrpc: &'static str,
    id: u64,
    result: Outcome<'a>,
}

#[derive(Serialize)]
struct Outcome<'a> {
    content: [Text<'a>; 1],
}

#[derive(Serialize)]
struct Text<'a> {
    r#type: &'static str,
    text: &'a str,
}

async fn echo(body: Bytes) -> Response {
    let Ok(call) = serde_json::from_slice::<Call<'_>>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let content = [Text { r#type: "text", text: call.params.arguments.text }];
    let answer = Answer { jsonrpc: "2.0", id: call.id, result: Outcome { content } };
    ([(CONTENT_TYPE, "application/json")], serde_json::to_vec(&answer).unwrap()).into_response()
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, axum::Router::new().route("/mcp", post(echo))).await.unwrap();
}
