//! Bare hyper: its pooling client, a request by hand, and the answer read by serde.

use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use mcp_bench::client::{Caller, WEB_IN_FLIGHT, Work, web_responder};
use serde::Deserialize;

type Bytes = axum::body::Bytes;

#[derive(Deserialize)]
struct Answer {
    id: u64,
    result: Outcome,
}

#[derive(Deserialize)]
struct Outcome {
    content: Vec<Text>,
}

#[derive(Deserialize)]
struct Text {
    text: String,
}

#[derive(Clone)]
struct Bare {
    client: Client<HttpConnector, Full<Bytes>>,
    uri: http::Uri,
}

impl Caller for Bare {
    async fn call(&self, id: u64) {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"hello there"}}}}}}"#
        );
        let request = http::Request::post(self.uri.clone())
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2025-11-25")
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        let response = self.client.request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let answer: Answer = serde_json::from_slice(&body).unwrap();
        assert_eq!((answer.id, answer.result.content[0].text.as_str()), (id, "hello there"));
    }
}

fn main() {
    let work = Work::from_arguments();
    let (_responder, url) = web_responder(&work);
    work.runtime().block_on(async {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        work.measure(&Bare { client, uri: url.parse().unwrap() }, WEB_IN_FLIGHT).await;
    });
}
