//! Bare hyper: its pooling client, a request by hand, and the answer read by serde.

use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use mcp_bench::client::{Meter, WEB_IN_FLIGHT, Work, web_responder};
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

async fn call(client: &Client<HttpConnector, Full<Bytes>>, uri: &http::Uri, id: u64) {
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"hello there"}}}}}}"#
    );
    let request = http::Request::post(uri.clone())
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2025-11-25")
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let response = client.request(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let answer: Answer = serde_json::from_slice(&body).unwrap();
    assert_eq!((answer.id, answer.result.content[0].text.as_str()), (id, "hello there"));
}

async fn run(client: &Client<HttpConnector, Full<Bytes>>, uri: &http::Uri, work: &Work, calls: u64) {
    if work.is_sequential {
        for id in 0..calls {
            call(client, uri, id).await;
        }
        return;
    }
    let callers: Vec<_> = (0..WEB_IN_FLIGHT)
        .map(|caller| {
            let (client, uri) = (client.clone(), uri.clone());
            tokio::spawn(async move {
                for id in 0..calls / WEB_IN_FLIGHT {
                    call(&client, &uri, id * WEB_IN_FLIGHT + caller).await;
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
}

fn main() {
    let work = Work::from_arguments();
    let (_responder, url) = web_responder(&work);
    work.runtime().block_on(async {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let uri: http::Uri = url.parse().unwrap();
        run(&client, &uri, &work, work.calls / 10).await;
        let meter = Meter::begin();
        run(&client, &uri, &work, work.calls).await;
        meter.tell(work.calls);
    });
}
